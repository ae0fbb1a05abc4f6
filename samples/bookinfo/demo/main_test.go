package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// TestMain also makes the test binary a program for pods: "forward ADDRESS" is that of the demo, and
// "serve ADDRESS" answers HTTP requests with their path.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "forward" {
		main()
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		fmt.Println(http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.Path+" of "+r.Host)
		})))
		os.Exit(1)
	}
	os.Exit(netns.TestMain(m))
}
