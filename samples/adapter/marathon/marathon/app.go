package marathon

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// app is the part of an application's JSON that a service depends on.
type app struct {
	ID              string            `json:"id"`
	Labels          map[string]string `json:"labels"`
	HealthChecks    []struct{}        `json:"healthChecks"`
	PortDefinitions []portDefinition  `json:"portDefinitions"`
	Container       *struct {
		PortMappings []portMapping `json:"portMappings"`
		Docker       *struct {
			PortMappings []portMapping `json:"portMappings"` // before Marathon 1.5
			Network      string        `json:"network"`      // before Marathon 1.5: HOST, BRIDGE, USER
		} `json:"docker"`
	} `json:"container"`
	Networks []struct {
		Mode string `json:"mode"` // "host", "container/bridge" or "container"
	} `json:"networks"`
	Tasks []task `json:"tasks"`
}

type portDefinition struct {
	Port     uint32            `json:"port"`
	Protocol string            `json:"protocol"` // "tcp", "udp" or "udp,tcp"
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
}

type portMapping struct {
	ContainerPort uint32            `json:"containerPort"`
	ServicePort   uint32            `json:"servicePort"`
	Protocol      string            `json:"protocol"`
	Name          string            `json:"name"`
	Labels        map[string]string `json:"labels"`
}

type task struct {
	ID          string   `json:"id"`
	Host        string   `json:"host"`
	Ports       []uint32 `json:"ports"`
	State       string   `json:"state"`
	Region      string   `json:"region"`
	Zone        string   `json:"zone"`
	IPAddresses []struct {
		IPAddress string `json:"ipAddress"`
	} `json:"ipAddresses"`
	HealthCheckResults []struct {
		Alive bool `json:"alive"`
	} `json:"healthCheckResults"`
}

// mode is how the tasks of an application are reached.
type mode int

const (
	hostMode      mode = iota // at the agent's address and ports that Mesos assigned
	bridgeMode                // the same, with a mapping to the container's ports
	containerMode             // at an address of its own and the container's ports ("IP per task")
)

func (a *app) mode() mode {
	switch {
	case len(a.Networks) > 0 && a.Networks[0].Mode == "container":
		return containerMode
	case len(a.Networks) > 0 && a.Networks[0].Mode == "container/bridge":
		return bridgeMode
	case a.Container != nil && a.Container.Docker != nil && a.Container.Docker.Network == "USER":
		return containerMode
	case a.Container != nil && a.Container.Docker != nil && a.Container.Docker.Network == "BRIDGE":
		return bridgeMode
	default:
		return hostMode
	}
}

// appPort is a port of an application. index is that in the ports of its tasks.
type appPort struct {
	adapter.Port
	index     int
	container uint32
}

// tcpPorts returns the TCP ports. A port without a number for callers has that of the container; a port
// with neither is left out.
func (a *app) tcpPorts() []appPort {
	mappings := []portMapping{}
	if a.Container != nil && a.Container.Docker != nil {
		mappings = a.Container.Docker.PortMappings
	}
	if a.Container != nil && len(a.Container.PortMappings) > 0 {
		mappings = a.Container.PortMappings
	}
	if a.mode() == hostMode {
		mappings = nil
		for _, p := range a.PortDefinitions {
			mappings = append(mappings, portMapping{ServicePort: p.Port, Protocol: p.Protocol, Name: p.Name, Labels: p.Labels})
		}
	}
	var list []appPort
	names := map[string]bool{}
	for i, p := range mappings {
		number := cmp.Or(p.ServicePort, p.ContainerPort)
		if a.mode() == containerMode {
			number = cmp.Or(p.ContainerPort, p.ServicePort)
		}
		if number == 0 || p.Protocol != "" && !strings.Contains(p.Protocol, "tcp") {
			continue
		}
		name := cmp.Or(p.Name, "port-"+digits(i))
		for names[name] {
			name += "-" + digits(i)
		}
		names[name] = true
		port := adapter.Port{Name: name, Number: number, Protocol: protocolOf(p.Name, p.Labels)}
		list = append(list, appPort{port, i, p.ContainerPort})
	}
	return list
}

func digits(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return digits(i/10) + digits(i%10)
}

// protocolOf returns the protocol in a port's label "protocol", else that in its name, as Istio reads
// port names ("http-admin"). It returns "", which makes proxies detect it, if neither names one.
func protocolOf(name string, labels map[string]string) string {
	first, _, _ := strings.Cut(name, "-")
	for _, p := range []string{labels["protocol"], first} {
		p = strings.ToUpper(p)
		if slices.Contains([]string{"HTTP", "HTTP2", "GRPC", "HTTPS", "TLS", "TCP", "MONGO", "MYSQL", "REDIS"}, p) {
			return p
		}
	}
	return ""
}

// newService converts an application. As in Mesos-DNS, /shop/web has the host web-shop.DOMAIN.
func newService(a *app, namespace, domain string) adapter.Service {
	parts := strings.Split(strings.Trim(a.ID, "/"), "/")
	slices.Reverse(parts)
	s := adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: namespace, Name: a.ID},
		Hosts:      []string{strings.ToLower(strings.Join(parts, "-")) + "." + domain},
	}
	ports := a.tcpPorts()
	for _, p := range ports {
		s.Ports = append(s.Ports, p.Port)
	}
	labels := map[string]string{}
	for k, v := range a.Labels {
		if len(validation.IsQualifiedName(k)) == 0 && len(validation.IsValidLabelValue(v)) == 0 {
			labels[k] = v
		}
	}
	for i := range a.Tasks {
		if x, ok := a.newInstance(&a.Tasks[i], ports); ok {
			x.Labels = labels
			s.Instances = append(s.Instances, x)
		}
	}
	return s
}

// newInstance converts a task. ok is false if it has ended or has not started, or has no address yet.
func (a *app) newInstance(t *task, ports []appPort) (x adapter.Instance, ok bool) {
	x = adapter.Instance{ID: t.ID, Address: t.Host, Ports: map[string]uint32{}, Locality: locality(t)}
	if a.mode() != bridgeMode && len(t.IPAddresses) > 0 { // in bridge mode, it is reachable on the agent only
		x.Address = t.IPAddresses[0].IPAddress
	} else if a.mode() == containerMode {
		return x, false
	}
	for _, p := range ports {
		switch {
		case a.mode() == containerMode && p.container != 0:
			x.Ports[p.Name] = p.container
		case p.index < len(t.Ports):
			x.Ports[p.Name] = t.Ports[p.index]
		default:
			return x, false // Mesos has not assigned the port
		}
	}
	switch t.State {
	case "TASK_RUNNING", "": // Marathon before 1.1 has no states and lists running tasks
		x.Health = a.healthOf(t)
	case "TASK_KILLING":
		x.Health = adapter.Draining
	case "TASK_UNREACHABLE":
		x.Health = adapter.Unhealthy
	default:
		return x, false
	}
	return x, x.Address != ""
}

// healthOf returns the health of a running task: each of the health checks must have succeeded.
func (a *app) healthOf(t *task) adapter.Health {
	if len(t.HealthCheckResults) < len(a.HealthChecks) {
		return adapter.Unhealthy // it has just started
	}
	for _, r := range t.HealthCheckResults {
		if !r.Alive {
			return adapter.Unhealthy
		}
	}
	return adapter.Healthy
}

// locality returns the locality of a task. DC/OS writes regions as "aws/us-west-2".
func locality(t *task) string {
	last := func(text string) string { return text[strings.LastIndex(text, "/")+1:] }
	if t.Region == "" || t.Zone == "" {
		return last(t.Region)
	}
	return last(t.Region) + "/" + last(t.Zone)
}
