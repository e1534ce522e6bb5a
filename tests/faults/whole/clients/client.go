// Sends what its stdin says, with Go's own client as it is by default.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	client := &http.Client{Timeout: 20 * time.Second}
	var writing sync.Mutex
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		go func(parts []string) {
			status, said := post(client, parts)
			writing.Lock()
			defer writing.Unlock()
			fmt.Printf("%s\t%d\t%s\n", parts[0], status, base64.StdEncoding.EncodeToString(said))
		}(strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
}

func post(client *http.Client, parts []string) (int, []byte) {
	body, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return 0, []byte(err.Error())
	}
	request, err := http.NewRequest("POST", os.Args[1]+parts[1], bytes.NewReader(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	for at := 3; at+1 < len(parts); at += 2 {
		request.Header.Set(parts[at], parts[at+1])
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, said
}
