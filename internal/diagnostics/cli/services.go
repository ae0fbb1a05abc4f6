package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// readServices reads the services of all namespaces from the first replica that answers.
func (a *pageClient) readServices(c *cobra.Command) ([]debug.Service, error) {
	x, err := readFirst[readapi.RegisteredServices](a, c, "/registry/services", nil)
	return x.Services, err
}

// servicesCommand returns the command that lists the services as registries report them.
// --namespace limits them to services of that namespace.
func (a *pageClient) servicesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "services", Short: "List all services of the control plane", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := a.readServices(c)
			if err != nil {
				return err
			}
			list, rows := []debug.Service{}, [][]string{}
			for _, s := range all {
				if a.namespace != "" && s.Attributes.Namespace != a.namespace {
					continue
				}
				ports := make([]string, 0, len(s.Ports))
				for _, p := range s.Ports {
					protocol := p.Protocol
					if protocol == debug.DetectedProtocol {
						protocol = "detected"
					}
					ports = append(ports, fmt.Sprintf("%d/%s", p.Port, protocol))
				}
				list = append(list, s)
				rows = append(
					rows,
					[]string{
						s.Hostname,
						s.Attributes.Namespace,
						s.Attributes.ServiceRegistry,
						s.DefaultAddress,
						strings.Join(ports, ","),
					},
				)
			}
			return a.printAnswer(
				c,
				answer{whole: list, header: "HOSTNAME\tNAMESPACE\tREGISTRY\tADDRESS\tPORTS", rows: rows, none: "no services"},
			)
		},
	}
}

// endpoint is the part of a debug.Endpoint that is printed.
type endpoint struct {
	Addresses    []string
	EndpointPort uint32
	Locality     struct{ Label string }
	Namespace    string
	WorkloadName string
	HealthStatus int
	TLSMode      string
}

// servicePort is the endpoints of a service port.
type servicePort struct {
	Service   string     `json:"svc"`
	Endpoints []endpoint `json:"ep"`
}

// readEndpoints reads the endpoints of all services, by service port, from the first replica that
// answers.
func (a *pageClient) readEndpoints(c *cobra.Command) ([]servicePort, error) {
	x, err := readFirst[struct{ Ports []servicePort }](a, c, "/registry/endpoints", nil)
	return x.Ports, err
}

// endpointsCommand returns the command that lists the endpoints of all services, or of services
// whose hostname starts with the argument. --namespace limits the endpoints to that namespace, and
// leaves out services without any.
func (a *pageClient) endpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "endpoints [HOSTNAME]",
		Short: "List the endpoints of all services, or of one service",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := a.readEndpoints(c)
			if err != nil {
				return err
			}
			list, rows := []servicePort{}, [][]string{}
			for _, s := range all {
				if len(args) > 0 && !strings.HasPrefix(s.Service, args[0]) {
					continue
				}
				if a.namespace != "" {
					s.Endpoints = slices.DeleteFunc(
						s.Endpoints,
						func(e endpoint) bool { return e.Namespace != a.namespace },
					)
				}
				if len(s.Endpoints) > 0 || a.namespace == "" {
					list = append(list, s)
				}
				for _, e := range s.Endpoints {
					at := make([]string, len(e.Addresses))
					for i, address := range e.Addresses {
						at[i] = hostPort(address, e.EndpointPort)
					}
					rows = append(rows, []string{
						s.Service,
						strings.Join(at, ","),
						healthText(e.HealthStatus),
						e.TLSMode,
						e.Locality.Label,
						e.WorkloadName,
					})
				}
			}
			return a.printAnswer(
				c,
				answer{
					whole:  list,
					header: "SERVICE PORT\tENDPOINT\tSTATUS\tMTLS\tLOCALITY\tWORKLOAD",
					rows:   rows,
					none:   "no endpoints",
				},
			)
		},
	}
}

// healthText returns the name of a health status from istiod's number: UNHEALTHY for 2, DRAINING
// for 3, and HEALTHY for any other.
func healthText(n int) string {
	switch n {
	case 2:
		return "UNHEALTHY"
	case 3:
		return "DRAINING"
	default:
		return "HEALTHY"
	}
}
