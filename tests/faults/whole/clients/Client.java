import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Base64;

/** Sends what its stdin says, with Java's own client as it is by default: it asks for h2c. */
public class Client {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            byte[] body = Base64.getDecoder().decode(parts[2]);
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(arguments[0] + parts[1]))
                    .timeout(Duration.ofSeconds(20))
                    .POST(HttpRequest.BodyPublishers.ofByteArray(body));
            for (int at = 3; at + 1 < parts.length; at += 2) {
                request.header(parts[at], parts[at + 1]);
            }
            client.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray())
                    .whenComplete((answer, error) -> {
                        int status = error == null ? answer.statusCode() : 0;
                        byte[] said = error == null ? answer.body() : String.valueOf(error).getBytes();
                        synchronized (out) {
                            out.print(parts[0] + "\t" + status + "\t"
                                    + Base64.getEncoder().encodeToString(said) + "\n");
                            out.flush();
                        }
                    });
        }
        System.exit(0);
    }
}
