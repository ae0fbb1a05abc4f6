package cli

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/explain"
)

// explain asks where a call goes, and why.
func (a *asker) explain() *cobra.Command {
	var (
		headers              []string
		method, protocol, to string
		inbound              bool
	)
	c := &cobra.Command{
		Use:   "explain NAME[.NAMESPACE] URL",
		Short: "Where a call of a proxy goes, and which objects decide it",
		Long: "Where a call of a proxy goes, step by step, by what that proxy was sent, and which objects decide each step.\n" +
			"The URL is http://host:port/path, https://host, tcp://host:port or tls://server-name:port.",
		Example: "  pilotctl explain productpage-v1.default http://reviews:9080/reviews/0 -H 'end-user: jason'",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"proxyID": {args[0]}, "url": {args[1]}, "header": headers}
			for name, value := range map[string]string{"method": method, "protocol": protocol, "to": to} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if inbound {
				query.Set("inbound", "")
			}
			path := new(explain.Path)
			if err := a.page(c.Context(), "explain", query, path); err != nil {
				return err
			}
			if a.output != "table" {
				return a.show(c, answer{whole: path})
			}
			_, err := fmt.Fprint(c.OutOrStdout(), path)
			return err
		},
	}
	fs := c.Flags()
	fs.StringArrayVarP(&headers, "header", "H", nil, "a header of the request, \"name: value\"")
	fs.StringVarP(&method, "method", "X", "", "the method of the request (default GET)")
	fs.StringVar(&protocol, "protocol", "", "h2c for HTTP/2, http/1.0")
	fs.StringVar(&to, "to", "", "where the call is sent, address:port (default: what the URL's host means to the proxy)")
	fs.BoolVar(&inbound, "inbound", false, "the call comes in to the proxy's workload")
	return c
}
