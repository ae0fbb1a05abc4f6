// Command consul-binary prints the path of the Consul program that tests and demos run. It builds the
// program into the user's cache if it is missing.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/meshpilot/meshpilot/test/support/consul"
)

func main() {
	path, err := consul.Binary(context.Background(), func() {
		fmt.Fprintln(os.Stderr, "building Consul into the cache: once, several minutes")
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "consul-binary:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
