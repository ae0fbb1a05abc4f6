// istiod, the other control plane.
package main

import (
	"os"

	"istio.io/istio/pilot/cmd/pilot-discovery/app"
)

func main() {
	if app.NewRootCommand().Execute() != nil {
		os.Exit(1)
	}
}
