package command

import (
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/base/command"
)

// requestCommand returns the shared request command with Envoy's admin port as default address. It
// also has Istio's flag --debug-port, which pod templates use: "request --debug-port=15020 POST
// drain". Unless that is 0, it overrides --address by this port of this host.
func requestCommand(o Options) *cobra.Command {
	address := localAddress(adminPort(o.Environ))
	c := command.Request("Call Envoy's admin interface, or the agent's, and print the response", &address)
	port := c.Flags().Int("debug-port", 0, "port of this host, overrides --address")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if *port == 0 {
			return nil
		}
		return c.Flags().Set("address", localAddress(*port))
	}
	return c
}

// adminPort returns Envoy's admin port in PROXY_CONFIG. It returns the default port if that does
// not set one, or is invalid, which the agent reports.
func adminPort(environ []string) int {
	layer := proxyconfig.Layer{Name: "PROXY_CONFIG", YAML: environment.ParseList(environ)["PROXY_CONFIG"]}
	config, err := proxyconfig.MergeLayers(layer)
	if err != nil {
		config = proxyconfig.DefaultConfig()
	}
	return int(config.GetProxyAdminPort())
}

// localAddress returns host:port for a port on localhost, which may be IPv4 or IPv6.
func localAddress(port int) string { return net.JoinHostPort("localhost", strconv.Itoa(port)) }
