package zookeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/metadata"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// curatorInstance is the JSON of an instance that curator-x-discovery writes.
type curatorInstance struct {
	Address             string          `json:"address"`
	Port                *int            `json:"port"`
	SSLPort             *int            `json:"sslPort"`
	Payload             json.RawMessage `json:"payload"`
	RegistrationTimeUTC int64           `json:"registrationTimeUTC"`
	Enabled             *bool           `json:"enabled"`
}

// curatorPayload is the payload of Spring Cloud and of Dubbo.
type curatorPayload struct {
	Metadata map[string]string `json:"metadata"`
}

// The keys of metadata that Spring Cloud and Dubbo write.
const (
	keyStatus       = "instance_status"         // Spring Cloud: UP, OUT_OF_SERVICE, …
	keyEndpoints    = "dubbo.endpoints"         // Dubbo: a JSON list of ports and protocols
	keyDubboRelease = "dubbo.metadata.revision" // Dubbo: every instance has it
	dubboPrefix     = "dubbo."
)

// parseInstance reads the content of an instance's node. service is the name of its parent. The
// error names the invalid parts; the registration may have endpoints nevertheless, and cannot be
// used only if it has none. An instance that is disabled, or declares another status than UP and
// OUT_OF_SERVICE, is Unhealthy. OUT_OF_SERVICE and a weight of 0 are Draining.
func parseInstance(service string, content []byte) (registration, error) {
	var c curatorInstance
	if err := json.Unmarshal(content, &c); err != nil {
		return registration{}, errors.New("the content of the node is not an instance of curator-x-discovery")
	}
	if c.Address == "" {
		return registration{}, errors.New("the instance has no address")
	}
	var payload curatorPayload
	_ = json.Unmarshal(c.Payload, &payload) // other programs write other payloads
	meta := maps.Clone(payload.Metadata)
	maps.DeleteFunc(meta, func(key, _ string) bool {
		return key == keyStatus || key == "timestamp" || strings.HasPrefix(key, dubboPrefix)
	})
	i, err := metadata.Parse(meta)
	instance := newInstance(c.Address, &i)
	switch status := payload.Metadata[keyStatus]; {
	case c.Enabled != nil && !*c.Enabled:
		instance.Health = adapter.Unhealthy
	case status == "OUT_OF_SERVICE":
		instance.Health = adapter.Draining
	case status != "" && status != "UP":
		instance.Health = adapter.Unhealthy
	}
	ports, portErr := c.ports(&i, payload.Metadata)
	r := registration{registered: c.RegistrationTimeUTC}
	for _, e := range ports {
		e.name, e.instance = metadata.HostPart(service)+".service", instance
		r.endpoints = append(r.endpoints, e)
	}
	if len(ports) == 0 && portErr == nil {
		portErr = errors.New("the instance has no port")
	}
	return r, errors.Join(err, portErr)
}

// ports returns an endpoint without an instance for each port: the ports that Dubbo lists, or else
// the plain port and the TLS port. If meta names a release of Dubbo, the plain port is TCP with
// Dubbo's number. The error names invalid numbers, which are left out. A port of 0 is none, and a
// TLS port equal to the plain one is not added again.
func (c *curatorInstance) ports(i *metadata.Instance, meta map[string]string) ([]endpoint, error) {
	if text := meta[keyEndpoints]; text != "" {
		return dubboPorts(text)
	}
	var list []endpoint
	var errs []error
	add := func(field string, port *int, e endpoint) {
		switch {
		case port == nil || *port == 0:
			return
		case !isPort(*port):
			errs = append(errs, fmt.Errorf("%s: %d is not a port number", field, *port))
			return
		}
		e.port = uint32(*port)
		list = append(list, e)
	}
	protocol := cmp.Or(i.Protocol, "HTTP")
	plain := endpoint{protocol: protocol, number: cmp.Or(i.ServicePort, metadata.DefaultPort(protocol))}
	if _, dubbo := meta[keyDubboRelease]; dubbo {
		plain = endpoint{protocol: "TCP", number: portDubbo}
	}
	add("port", c.Port, plain)
	if c.SSLPort != nil && (c.Port == nil || *c.SSLPort != *c.Port) {
		add("sslPort", c.SSLPort, endpoint{protocol: "HTTPS", number: metadata.DefaultPort("HTTPS")})
	}
	return list, errors.Join(errs...)
}

// maxEndpoints limits the ports of an instance.
const maxEndpoints = 32

// dubboPorts reads the ports and protocols that Dubbo lists, and returns one endpoint per port that
// callers use. The error names entries that are left out: invalid numbers, and protocols that
// another entry has. There are no endpoints if text is no list or has more than maxEndpoints
// entries.
func dubboPorts(text string) ([]endpoint, error) {
	var listed []struct {
		Port     int    `json:"port"`
		Protocol string `json:"protocol"`
	}
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		return nil, fmt.Errorf("metadata.%s: is not a list of ports", keyEndpoints)
	}
	if len(listed) > maxEndpoints {
		return nil, fmt.Errorf("metadata.%s: %d ports exceed the limit of %d", keyEndpoints, len(listed), maxEndpoints)
	}
	var list []endpoint
	var errs []error
	used := map[uint32]bool{}
	for _, l := range listed {
		protocol, number := dubboProtocol(l.Protocol, false)
		switch {
		case !isPort(l.Port):
			errs = append(errs, fmt.Errorf("metadata.%s: %d is not a port number", keyEndpoints, l.Port))
		case used[number]:
			errs = append(errs, fmt.Errorf("metadata.%s: port %d has the protocol of another one", keyEndpoints,
				l.Port))
		default:
			used[number] = true
			list = append(list, endpoint{port: uint32(l.Port), protocol: protocol, number: number})
		}
	}
	return list, errors.Join(errs...)
}

// isPort reports whether n is a port number, 1 to 65535.
func isPort(n int) bool { return n >= 1 && n <= 65535 }
