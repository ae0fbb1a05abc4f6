package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

const (
	// adminPort is the port of Envoy's admin interface in a pod.
	adminPort = 15000
	// agentPort is the port at which the agent of a pod serves metrics.
	agentPort = 15020
)

// podPort is an HTTP port of one pod.
type podPort struct {
	client *http.Client
	base   string
	close  func()
}

// addAdminFlag adds --admin, the address of Envoy's admin interface, which is needed outside
// Kubernetes.
func addAdminFlag(fs *pflag.FlagSet, address *string) {
	fs.StringVar(address, "admin", "",
		"address of Envoy's admin interface (default: port 15000 of the pod, by port-forward)")
}

// openAdmin returns the admin interface at an address; if that is empty, of the pod NAME[.NAMESPACE] in
// the cluster of the kubeconfig. It sends no request. The caller must call close.
func (a *pageClient) openAdmin(name, address string) (*podPort, error) {
	x, err := a.openPort(name, address, adminPort)
	if err != nil {
		return nil, fmt.Errorf("reach Envoy's admin interface (--admin names its address): %w", err)
	}
	return x, nil
}

// openPort returns the HTTP port at address; if that is empty, a port of the pod NAME[.NAMESPACE]
// in the cluster of the kubeconfig. It sends no request, and returns an error only if there is no
// valid kubeconfig for a pod. The caller must call close.
func (a *pageClient) openPort(name, address string, port int) (*podPort, error) {
	if address != "" {
		t := new(http.Transport)
		return &podPort{&http.Client{Transport: t, Timeout: timeout}, "http://" + address, t.CloseIdleConnections}, nil
	}
	config, err := a.options().RESTConfig()
	if err != nil {
		return nil, err
	}
	pod, namespace := a.objectName(name)
	f := connect.NewForwarder(config, namespace, pod, port)
	t := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return f.DialContext(ctx, network, address)
	}}
	return &podPort{
		&http.Client{Transport: t, Timeout: timeout}, fmt.Sprintf("http://localhost:%d", port),
		func() { t.CloseIdleConnections(); f.Close() },
	}, nil
}

// get returns the body of a page, or an error for a status of 400 or above.
func (x *podPort) get(ctx context.Context, path string) ([]byte, error) {
	return sendRequest(ctx, x.client, http.MethodGet, x.base+path, nil)
}

// post sends a POST, which may change the state of Envoy, and returns the body of the response.
func (x *podPort) post(ctx context.Context, path string) ([]byte, error) {
	return sendRequest(ctx, x.client, http.MethodPost, x.base+path, nil)
}

// proxyLog returns the command that prints the loggers of an Envoy with their levels, after setting
// levels with --level or --reset. A proxy or --admin is required; --admin takes precedence. Invalid
// levels are refused before any is set. A failed request ends it; levels set before remain.
func (a *pageClient) proxyLog() *cobra.Command {
	var address string
	var levels []string
	reset := false
	c := &cobra.Command{
		Use: "log [NAME[.NAMESPACE]]", Aliases: []string{"lg"}, Args: cobra.MaximumNArgs(1),
		Short: "Show or change the log levels of Envoy",
		Long: "proxy-config log prints the loggers of an Envoy with their levels, and with --level changes them first. A level is trace,\n" +
			"debug, info, warning, error, critical or off. --reset sets warning, the level of injected sidecars, for all of them.",
		Example: "  pilotctl proxy-config log productpage-v1.bookinfo --level rbac:debug,jwt:trace\n  pilotctl proxy-config log --admin 127.0.0.1:15000 --level info",
		RunE: func(c *cobra.Command, args []string) error {
			queries, err := levelQueries(levels, reset)
			if err != nil {
				return err
			}
			if len(args) == 0 && address == "" {
				return errNoProxy
			}
			x, err := a.openAdmin(append(args, "")[0], address)
			if err != nil {
				return err
			}
			defer x.close()
			for _, q := range queries {
				if _, err := x.post(c.Context(), "/logging?"+q); err != nil {
					return fmt.Errorf("set the log level: %w", err)
				}
			}
			text, err := x.post(c.Context(), "/logging") // without a query it changes nothing
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	fs := c.Flags()
	addAdminFlag(fs, &address)
	fs.StringSliceVar(&levels, "level", nil, "levels to set: logger:level, or a level for all loggers")
	fs.BoolVar(&reset, "reset", false, "set all loggers to warning")
	return c
}

// levelQueries returns a query of Envoy's page /logging for each of levels, which are "level" for
// all loggers or "logger:level". If reset is set, the first query sets all loggers to warning. It
// returns an error for an unknown level, but does not check loggers.
func levelQueries(levels []string, reset bool) (list []string, err error) {
	if reset {
		list = append(list, url.Values{"level": {"warning"}}.Encode())
	}
	for _, text := range levels {
		logger, level, one := strings.Cut(text, ":")
		if !one {
			logger, level = "level", logger
		}
		if !slices.Contains([]string{"trace", "debug", "info", "warning", "error", "critical", "off"}, level) {
			return nil, fmt.Errorf("--level %q: want trace, debug, info, warning, error, critical or off", text)
		}
		list = append(list, url.Values{logger: {level}}.Encode())
	}
	return list, nil
}
