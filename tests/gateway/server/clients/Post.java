import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Posts the files 0, 1, 2, ... of a folder, each to its own id, four at a time. */
public class Post {
  public static void main(String[] given) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    var four = Executors.newFixedThreadPool(4, Post::daemon);
    var posts = new ArrayList<Future<Integer>>();
    for (int i = 0; i < Integer.parseInt(given[2]); i++) {
      int number = i;
      posts.add(four.submit(() -> post(client, given[0], Path.of(given[1]), number)));
    }
    for (Future<Integer> post : posts) {
      if (post.get() != 202) throw new IllegalStateException("answered with " + post.get());
    }
  }

  static Thread daemon(Runnable work) {
    var thread = new Thread(work);
    thread.setDaemon(true); // so that the first failure ends all
    return thread;
  }

  static int post(HttpClient client, String url, Path folder, int number) throws Exception {
    byte[] payload = Files.readAllBytes(folder.resolve(Integer.toString(number)));
    BodyPublisher body =
        number % 2 == 0
            ? BodyPublishers.ofByteArray(payload)
            : BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(payload)); // in chunks
    var request = HttpRequest.newBuilder(URI.create(url + number)).POST(body).build();
    return client.send(request, BodyHandlers.ofString()).statusCode();
  }
}
