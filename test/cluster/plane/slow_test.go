package plane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestSlow checks that responses to watches are late, complete and in order, and that no other
// response is late.
func TestSlow(t *testing.T) {
	next := make(chan int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for event := range next {
			_, err := fmt.Fprintln(w, event)
			if err = errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	s, err := NewSlow(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const by = 50 * time.Millisecond
	s.By(by)
	sent := make([]time.Time, 3)
	go func() {
		for i := range sent {
			sent[i] = time.Now()
			next <- i
		}
		close(next)
	}()
	answer, err := http.Get(s.URL() + "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for i := range sent {
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Fatalf("event %d is %q: %v", i, lines.Text(), lines.Err())
		}
		if took := time.Since(sent[i]); took < by {
			t.Errorf("event %d came after %v, want %v", i, took, by)
		}
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end of the watch: %q, %v", lines.Text(), lines.Err())
	}
	s.By(time.Hour)
	list, err := http.Get(s.URL() + "/api/v1/pods")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Body.Close()
	if _, err := io.ReadAll(list.Body); err != nil {
		t.Error(err)
	}
}
