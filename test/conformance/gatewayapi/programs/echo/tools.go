//go:build tools

// Package echo pins Istio's echo server and client, which the suite's image echo-advanced consists of.
package echo

import (
	_ "github.com/spf13/cobra"
	_ "istio.io/istio/pkg/test/echo/server"
	_ "istio.io/istio/pkg/test/echo/server/forwarder"
)
