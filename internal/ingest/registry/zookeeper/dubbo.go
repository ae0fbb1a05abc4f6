package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/metadata"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// registration is what one node registers: an instance, with an endpoint per protocol. All
// endpoints have the same address.
type registration struct {
	endpoints []endpoint
	// registered orders registrations of the same address: the latest one is used.
	registered int64
}

// endpoint is an instance of a service with one port.
type endpoint struct {
	// name is the host of the service without its domain: "web.service".
	name string
	// number is the port that callers use, protocol its protocol.
	number   uint32
	protocol string
	// port is the port of the instance. instance has no ports and no ID.
	port     uint32
	instance adapter.Instance
}

// maxNode limits the length of a node's name and content. ZooKeeper itself refuses more than 1 MiB.
const maxNode = 1 << 20

// dubboTechnical are parameters of a provider's URL that do not become labels, because they change
// with every start or describe the interface.
var dubboTechnical = []string{
	"anyhost", "bind.ip", "bind.port", "category", "check", "deprecated", "dynamic", "generic", "interface",
	"metadata-type",
	"methods", "pid", "qos.enable", "qos.port", "register-mode", "side", "timestamp",
	"service-name-mapping", "prefer.serialization", "threads", "threadpool", "timeout", "retries", "warmup",
	"executor-management-mode",
	"file-cache", "bean.name", "application.version", "register", "export", "token", "logger", "dubbo",
}

// parseProvider reads a provider of Dubbo's registration of interfaces. node is the name of its
// node, an encoded URL. It returns a registration without endpoints and an error if that is
// malformed or of another category. An error beside an endpoint names invalid parameters, which
// have no effect; the first value of each counts.
func parseProvider(node string) (registration, error) {
	if len(node) > maxNode {
		return registration{}, fmt.Errorf("the URL of a provider has %d bytes", len(node))
	}
	text, err := url.QueryUnescape(node)
	if err != nil {
		return registration{}, errors.New("the name of the node is not an encoded URL")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return registration{}, errors.New("the name of the node is not the URL of a provider")
	}
	parameters := map[string]string{}
	for key, values := range u.Query() {
		parameters[key] = values[0]
	}
	if c := parameters["category"]; c != "" && c != "providers" {
		return registration{}, fmt.Errorf("category %q is not \"providers\"", c)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return registration{}, fmt.Errorf("%q is not a port number", u.Port())
	}
	iface := cmp.Or(parameters["interface"], strings.Trim(u.Path, "/"))
	if iface == "" {
		return registration{}, errors.New("the URL has no interface")
	}
	e, err := newDubboEndpoint(u.Scheme, uint32(port), u.Hostname(), parameters)
	e.name = interfaceName(iface, parameters["group"], parameters["version"])
	registered, _ := strconv.ParseInt(parameters["timestamp"], 10, 64) // 0 if it has none
	return registration{endpoints: []endpoint{e}, registered: registered}, err
}

// newDubboEndpoint returns the endpoint of a provider with these parameters, whose protocol and
// service-port precede the scheme. The error names invalid parameters, which have no effect. A
// disabled provider is Unhealthy.
func newDubboEndpoint(scheme string, port uint32, address string, parameters map[string]string) (endpoint, error) {
	protocol, number := dubboProtocol(scheme, parameters["ssl-enabled"] == "true")
	meta := maps.Clone(parameters)
	maps.DeleteFunc(meta, func(key, _ string) bool { return slices.Contains(dubboTechnical, key) })
	i, err := metadata.Parse(meta)
	e := endpoint{
		protocol: cmp.Or(i.Protocol, protocol), number: cmp.Or(i.ServicePort, number), port: port,
		instance: newInstance(address, &i),
	}
	if parameters["disabled"] == "true" || parameters["enabled"] == "false" {
		e.instance.Health = adapter.Unhealthy
	}
	return e, err
}

// newInstance returns an instance with the metadata. An explicit weight of 0 makes it Draining,
// otherwise it is Healthy. It shares the labels of i.
func newInstance(address string, i *metadata.Instance) adapter.Instance {
	instance := adapter.Instance{
		Address: address, Labels: i.Labels, Weight: i.Weight, Locality: i.Locality(), Network: i.Network,
		ServiceAccount: i.ServiceAccount,
	}
	if i.WeightSet && i.Weight == 0 {
		instance.Health = adapter.Draining
	}
	return instance
}

// The ports that callers use for Dubbo's protocols, which are the default ports of its servers.
const (
	portDubbo  = 20880
	portTriple = 50051
)

// dubboProtocol returns the protocol of a scheme of Dubbo, in any case, and the port that callers
// use. For an unknown scheme it returns TCP and Dubbo's port. If secure is set, the protocol is
// HTTPS instead of HTTP, and TLS instead of others.
func dubboProtocol(scheme string, secure bool) (protocol string, number uint32) {
	protocol, number = "TCP", uint32(portDubbo)
	switch strings.ToLower(scheme) {
	case "tri", "grpc":
		protocol, number = "GRPC", portTriple
	case "rest", "http", "hessian", "webservice", "jsonrpc":
		protocol, number = "HTTP", metadata.DefaultPort("HTTP")
	case "https":
		return "HTTPS", metadata.DefaultPort("HTTPS")
	case "redis":
		protocol, number = "REDIS", 6379
	case "thrift", "native-thrift":
		number = 9090
	case "rmi":
		number = 1099
	}
	switch {
	case !secure:
		return protocol, number
	case protocol == "HTTP":
		return "HTTPS", metadata.DefaultPort("HTTPS")
	default:
		return "TLS", number
	}
}

// interfaceName returns the host of an interface with a group and version:
// "g-GROUP.v-VERSION.INTERFACE.dubbo", without the parts that are empty. All are converted by
// HostPart (lower case), and dots in the group and version become hyphens. Dubbo treats each group
// and version as a service of its own, and version 0.0.0 as none.
func interfaceName(iface, group, version string) string {
	name := metadata.HostPart(iface) + ".dubbo"
	if version != "" && version != "0.0.0" {
		name = "v-" + strings.ReplaceAll(metadata.HostPart(version), ".", "-") + "." + name
	}
	if group != "" {
		name = "g-" + strings.ReplaceAll(metadata.HostPart(group), ".", "-") + "." + name
	}
	return name
}
