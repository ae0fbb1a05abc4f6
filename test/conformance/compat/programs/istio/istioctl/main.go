// istioctl, the command line that asks a control plane.
package main

import (
	"os"

	"istio.io/istio/istioctl/cmd"
)

func main() {
	err := cmd.GetRootCmd(os.Args[1:]).Execute()
	if err != nil {
		os.Exit(cmd.GetExitCode(err))
	}
}
