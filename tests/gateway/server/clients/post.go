// Posts the files 0, 1, 2, ... of a folder, each to its own id, four at a time.
package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

func main() {
	url, folder := os.Args[1], os.Args[2]
	count, _ := strconv.Atoi(os.Args[3])
	numbers := make(chan int)
	var four sync.WaitGroup
	for i := 0; i < 4; i++ {
		four.Add(1)
		go func() {
			defer four.Done()
			for number := range numbers {
				post(url, folder, number)
			}
		}()
	}
	for number := 0; number < count; number++ {
		numbers <- number
	}
	close(numbers)
	four.Wait()
}

func post(url string, folder string, number int) {
	name := strconv.Itoa(number)
	payload, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		log.Fatal(err)
	}
	var body io.Reader = bytes.NewReader(payload)
	if number%2 == 1 {
		body = io.MultiReader(body) // of unknown length: in chunks
	}
	answer, err := http.Post(url+name, "application/json", body)
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 202 {
		log.Fatal(name, " answered with ", answer.Status)
	}
}
