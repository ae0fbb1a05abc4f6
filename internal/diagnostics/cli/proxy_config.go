package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// selection contains the flags of the proxy-config commands, which have istioctl's names.
type selection struct {
	file, fqdn, direction, subset, name, address, cluster, status string
	port                                                          uint32
	// envoy selects what Envoy has instead of what it was sent; admin is the address of its admin
	// interface, and implies envoy.
	envoy bool
	admin string
	// now is when the command runs.
	now time.Time
}

// hasFilter reports whether a flag selects some of the resources. Flags that select the source of
// the dump do not count.
func (s selection) hasFilter() bool {
	s.file, s.now, s.envoy, s.admin = "", time.Time{}, false, ""
	return s != selection{}
}

// proxyConfig returns the command "proxy-config" with a subcommand for each table of istioctl
// proxy-config, the bootstrap and the log levels. The tables show the resources that the control
// plane sent, or with --envoy, --admin or --file the ones of Envoy or the file. "endpoint" fails if
// the dump has no endpoints.
func (a *pageClient) proxyConfig() *cobra.Command {
	c := groupCommand(&cobra.Command{
		Use:     "proxy-config",
		Aliases: []string{"pc"},
		Short:   "Show the configuration of a proxy: clusters, listeners, routes, endpoints, extensions, secrets",
	}, a.allConfig(), a.bootstrapConfig(), a.proxyLog())
	for _, kind := range []struct {
		use, short, alias string
		table             func(d *dump, s selection) answer
	}{
		{"cluster", "Show the clusters that a proxy was sent", "c", clusterTable},
		{"listener", "Show the listeners that a proxy was sent", "l", listenerTable},
		{"route", "Show the routes that a proxy was sent", "r", routeTable},
		{"endpoint", "Show the endpoints that a proxy was sent", "ep", endpointTable},
		{"ecds", "Show the configurations of filters that a proxy was sent by ECDS: policies, routes of connections, plugins", "ec", extensionTable},
		{"secret", "Show the certificates that a proxy was sent by the control plane; with --envoy or --file, all that Envoy has",
			"s", secretTable},
	} {
		var s selection
		sub := &cobra.Command{
			Use:     kind.use + " [NAME[.NAMESPACE]]",
			Aliases: []string{kind.alias, kind.use + "s"},
			Short:   kind.short,
			Args:    cobra.MaximumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				d, err := a.readDump(c, args, s)
				if err != nil {
					return err
				}
				if kind.use == "endpoint" && !d.hasEndpoints {
					return errors.New("the dump has no endpoints: read /config_dump?include_eds or /clusters?format=json of Envoy")
				}
				s.now = time.Now()
				return a.printAnswer(c, kind.table(d, s))
			},
		}
		s.addFlags(sub)
		c.AddCommand(sub)
	}
	return c
}

// addFlags adds the flags of one proxy-config command, which set s: --file, --admin, and --envoy
// except for "bootstrap". It also adds the filters of the table that the command's name selects, if
// there are any.
func (s *selection) addFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(
		&s.file,
		"file",
		"f",
		"",
		"read a config dump of Envoy or of the control plane instead, - is the standard input",
	)
	addAdminFlag(fs, &s.admin)
	if c.Name() != "bootstrap" {
		fs.BoolVar(&s.envoy, "envoy", false,
			"show what Envoy has, through its admin interface, instead of what it was sent")
	}
	switch c.Name() {
	case "cluster":
		fs.StringVar(&s.fqdn, "fqdn", "", "only clusters of services whose hostname contains this")
		fs.StringVar(&s.direction, "direction", "", "only inbound or outbound")
		fs.StringVar(&s.subset, "subset", "", "only of this subset")
		fs.Uint32Var(&s.port, "port", 0, "only of this port")
	case "listener":
		fs.StringVar(&s.address, "address", "", "only at this address")
		fs.Uint32Var(&s.port, "port", 0, "only at this port")
	case "route":
		fs.StringVar(&s.name, "name", "", "only of this route configuration")
	case "ecds":
		fs.StringVar(&s.name, "name", "", "only of this name")
	case "endpoint":
		fs.StringVar(&s.cluster, "cluster", "", "only of this cluster")
		fs.StringVar(&s.address, "address", "", "only at this address")
		fs.Uint32Var(&s.port, "port", 0, "only at this port")
		fs.StringVar(&s.status, "status", "", "only with this status: healthy, unhealthy, draining, degraded")
	case "secret":
		fs.StringVar(&s.name, "name", "", "only of this name")
	}
}

// readDump reads the file of --file, which takes precedence; "-" is the standard input. Otherwise
// it reads the config_dump of the proxy in args: Envoy's own with --envoy or --admin, else that of
// the control plane. It returns an error if neither a file, a proxy nor --admin is named.
func (a *pageClient) readDump(c *cobra.Command, args []string, s selection) (*dump, error) {
	if s.file != "" {
		body, err := readFile(c, s.file)
		if err != nil {
			return nil, err
		}
		return readDump(body)
	}
	switch {
	case len(args) == 0 && s.admin == "":
		return nil, errNoProxy
	case s.envoy || s.admin != "":
		return a.readEnvoyDump(c.Context(), append(args, "")[0], s.admin)
	}
	var body json.RawMessage
	if err := a.readPage(
		c,
		"config_dump",
		url.Values{"proxyID": {a.proxyName(args[0])}, "include_eds": {""}},
		&body,
	); err != nil {
		return nil, err
	}
	return readDump(body)
}

// readFile reads a file as a whole, or standard input if path is "-". The error of a file names the
// flag --file.
func readFile(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		body, err := io.ReadAll(c.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("read the standard input: %w", err)
		}
		return body, nil
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	return body, nil
}

// errNoProxy is returned if no proxy is named.
var errNoProxy = errors.New("name the proxy, as NAME.NAMESPACE; pilotctl proxy-status lists them")

// readEnvoyDump reads the config_dump of an Envoy through the admin interface at address, or if
// that is empty of the pod name. It includes endpoints, bootstrap and static resources. It returns
// an error if Envoy cannot be reached or its dump cannot be parsed.
func (a *pageClient) readEnvoyDump(ctx context.Context, name, address string) (*dump, error) {
	x, err := a.openAdmin(name, address)
	if err != nil {
		return nil, err
	}
	defer x.close()
	body, err := x.get(ctx, "/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	return readDump(body)
}

// proxyName returns the name with --namespace appended, if that is set and the name has no
// namespace.
func (a *pageClient) proxyName(name string) string {
	if a.namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return name + "." + a.namespace
}

// formatUint returns n in decimal.
func formatUint(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// hostPort returns the address and port of an endpoint as one text, an IPv6 address in brackets. A
// Unix socket is returned without the port, which it does not have.
func hostPort(address string, port uint32) string {
	if config.IsSocket(address) {
		return address
	}
	return net.JoinHostPort(address, formatUint(port))
}

// clusterTable returns the selected clusters, sorted by host, subset and port; --fqdn is a part of
// the host, the other filters are compared exactly. A cluster whose name has another format is
// listed if no filter is set or its name contains --fqdn.
func clusterTable(d *dump, s selection) answer {
	x := answer{header: "SERVICE FQDN\tPORT\tSUBSET\tDIRECTION\tTYPE\tDESTINATION RULE"}
	type key struct {
		host, subset string
		port         uint32
	}
	type line struct {
		key
		row []string
		raw json.RawMessage
	}
	var lines []line
	for _, c := range d.Clusters {
		n, err := mesh.ParseClusterName(c.Name)
		if err != nil {
			if !s.hasFilter() || s.fqdn != "" && strings.Contains(c.Name, s.fqdn) {
				lines = append(
					lines,
					line{key{host: c.Name}, []string{c.Name, "-", "-", "-", c.discoveryType(), c.Metadata.objectName()}, c.raw},
				)
			}
			continue
		}
		if !strings.Contains(string(n.Host), s.fqdn) || s.direction != "" && string(n.Direction) != s.direction ||
			s.subset != "" && n.Subset != s.subset || s.port != 0 && n.Port != s.port {
			continue
		}
		lines = append(lines, line{
			key{string(n.Host), n.Subset, n.Port},
			[]string{
				string(n.Host),
				formatUint(n.Port),
				cmp.Or(n.Subset, "-"),
				string(n.Direction),
				c.discoveryType(),
				c.Metadata.objectName(),
			},
			c.raw,
		})
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.subset, b.subset), cmp.Compare(a.port, b.port))
	})
	list := []json.RawMessage{}
	for _, l := range lines {
		x.rows = append(x.rows, l.row)
		list = append(list, l.raw)
	}
	x.whole = list
	return x
}

// extensionTable returns the filter configurations received by ECDS, or only the one named s.name
// if that is set.
func extensionTable(d *dump, s selection) answer {
	x := answer{header: "ECDS NAME\tTYPE", none: "no extensions"}
	list := []json.RawMessage{}
	for _, e := range d.Extensions {
		if s.name != "" && e.Name != s.name {
			continue
		}
		x.rows = append(x.rows, []string{e.Name, e.TypedConfig.Type})
		list = append(list, e.raw)
	}
	x.whole = list
	return x
}

// endpointTable returns the endpoints that the flags for cluster, address, port and status select;
// cluster and status are compared regardless of case. JSON and YAML output has all endpoints of the
// selected clusters. The port and address of a Unix domain socket are 0 and "".
func endpointTable(d *dump, s selection) answer {
	x := answer{header: "ENDPOINT\tSTATUS\tOUTLIER CHECK\tWEIGHT\tLOCALITY\tCLUSTER", none: "no endpoints"}
	list := []json.RawMessage{}
	for _, a := range d.Endpoints {
		if s.cluster != "" && !strings.EqualFold(a.ClusterName, s.cluster) {
			continue
		}
		list = append(list, a.raw)
		for _, group := range a.Endpoints {
			l := mesh.Locality(group.Locality)
			for _, e := range group.LbEndpoints {
				at, status := e.Endpoint.Address, cmp.Or(e.HealthStatus, "HEALTHY")
				if s.status != "" && !strings.EqualFold(status, s.status) ||
					s.address != "" && at.SocketAddress.Address != s.address ||
					s.port != 0 && at.SocketAddress.PortValue != s.port {
					continue
				}
				text := hostPort(at.SocketAddress.Address, at.SocketAddress.PortValue)
				if at.Pipe.Path != "" {
					text = config.SocketPrefix + at.Pipe.Path
				}
				x.rows = append(
					x.rows,
					[]string{
						text,
						status,
						cmp.Or(e.outlierCheck, "-"),
						formatUint(cmp.Or(e.Weight, 1)),
						cmp.Or(l.String(), "-"),
						a.ClusterName,
					},
				)
			}
		}
	}
	x.whole = list
	return x
}
