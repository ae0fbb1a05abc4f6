package command

import (
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/base/command"
)

// requestCommand is the shared request command, for Envoy's admin port where --address does not say otherwise. It has
// Istio's --debug-port too, which pod templates use: "request --debug-port=15020 POST drain".
func requestCommand(o Options) *cobra.Command {
	c := command.Request("Call Envoy's admin interface, or the agent's, and print the answer", local(adminPort(o.Environ)))
	port := c.Flags().Int("debug-port", 0, "port of this host to ask, instead of --address")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if *port == 0 {
			return nil
		}
		return c.Flags().Set("address", local(*port))
	}
	return c
}

// adminPort is Envoy's by PROXY_CONFIG, which a shell in the container has as well. If it is no good, the agent says so.
func adminPort(environ []string) int {
	layer := proxyconfig.Layer{Name: "PROXY_CONFIG", YAML: environment.List(environ)["PROXY_CONFIG"]}
	config, err := proxyconfig.Effective(layer)
	if err != nil {
		config = proxyconfig.Default()
	}
	return int(config.GetProxyAdminPort())
}

// local is a port of this host, in whichever IP version it has.
func local(port int) string { return net.JoinHostPort("localhost", strconv.Itoa(port)) }
