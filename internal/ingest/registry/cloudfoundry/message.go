package cloudfoundry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// message is the payload of router.register and router.unregister.
type message struct {
	Host                 string            `json:"host"`
	Port                 uint16            `json:"port"`
	TLSPort              uint16            `json:"tls_port"`
	URIs                 []string          `json:"uris"`
	Protocol             string            `json:"protocol"`
	App                  string            `json:"app"`
	StaleThreshold       int64             `json:"stale_threshold_in_seconds"`
	RouteServiceURL      string            `json:"route_service_url"`
	PrivateInstanceID    string            `json:"private_instance_id"`
	PrivateInstanceIndex string            `json:"private_instance_index"`
	ServerCertDomainSAN  string            `json:"server_cert_domain_san"`
	IsolationSegment     string            `json:"isolation_segment"`
	AvailabilityZone     string            `json:"availability_zone"`
	EndpointUpdatedAt    int64             `json:"endpoint_updated_at_ns"`
	Tags                 map[string]string `json:"tags"`
}

// Limits of one message. A message beyond one of the first three is refused as a whole, a route
// longer than maxRoute alone.
const (
	maxURIs  = 1000
	maxTags  = 64
	maxText  = 1024 // bytes of each text
	maxRoute = 2048 // bytes of a route
)

// parseMessage returns the message in a payload. It returns an error if the payload is not JSON,
// names no route or exceeds a limit. The host must be an IP address, but not unspecified or
// multicast, and without a zone. An IPv4-mapped address becomes IPv4.
func parseMessage(payload []byte) (*message, error) {
	var m message
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if len(m.URIs) == 0 {
		return nil, errors.New("uris: is empty")
	}
	if len(m.URIs) > maxURIs || len(m.Tags) > maxTags {
		return nil, fmt.Errorf(
			"has %d uris and %d tags; at most %d and %d are allowed", len(m.URIs), len(m.Tags), maxURIs, maxTags,
		)
	}
	for _, s := range []string{
		m.Protocol, m.App, m.RouteServiceURL, m.PrivateInstanceID, m.PrivateInstanceIndex, m.ServerCertDomainSAN,
		m.IsolationSegment, m.AvailabilityZone,
	} {
		if len(s) > maxText {
			return nil, fmt.Errorf("a field is longer than %d bytes", maxText)
		}
	}
	ip, err := netip.ParseAddr(m.Host)
	if err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() {
		return nil, fmt.Errorf("host: %.64q is not an IP address of an instance", m.Host)
	}
	m.Host = ip.Unmap().String()
	return &m, nil
}

// updatedAt returns the time when the instance last changed, or the zero time if the emitter does
// not send it.
func (m *message) updatedAt() time.Time {
	if m.EndpointUpdatedAt <= 0 {
		return time.Time{}
	}
	return time.Unix(0, m.EndpointUpdatedAt)
}

// lifetime returns the lifetime that the emitter requests, or 0 if it requests none. It is at most
// an hour.
func (m *message) lifetime() time.Duration {
	const most = int64(time.Hour / time.Second) // without overflow; the table has a lower limit
	return time.Duration(max(0, min(m.StaleThreshold, most))) * time.Second
}

// withdrawnRegistrations returns what an unregistration withdraws: for each of its two ports that
// is not 0, a registration with only address, port and time.
func (m *message) withdrawnRegistrations() []registration {
	var list []registration
	for _, port := range []uint16{m.Port, m.TLSPort} {
		if port != 0 {
			list = append(list, registration{
				instance: instance{properties: properties{address: m.Host, port: port}}, updatedAt: m.updatedAt(),
			})
		}
	}
	return list
}

// route matches requests by a host in lower case, possibly with a wildcard as its first label, and
// by a path prefix, "" or "/a/b".
type route struct{ host, path string }

// String returns the route as emitters write it.
func (r route) String() string { return r.host + r.path }

// parseRoute returns the route of a URI without a scheme, in lower case. As in Cloud Foundry's
// router, a query and slashes at both ends of the path do not matter. The path is "" or begins with
// one slash. It returns an error if the URI is longer than maxRoute bytes, or the host has the
// reserved label pathLabel. The host must be a DNS name, optionally after "*.", without a dot at
// the end.
func parseRoute(uri string) (route, error) {
	if len(uri) > maxRoute {
		return route{}, fmt.Errorf("route %.64q...: is longer than %d bytes", uri, maxRoute)
	}
	uri, _, _ = strings.Cut(strings.ToLower(uri), "?")
	host, path, found := strings.Cut(uri, "/")
	if path = strings.Trim(path, "/"); found && path != "" {
		path = "/" + path
	}
	if !config.IsHostname(strings.TrimPrefix(host, "*.")) || strings.HasSuffix(host, ".") {
		return route{}, fmt.Errorf("route %.64q: want a DNS name, optionally with a path", uri)
	}
	if strings.Contains("."+host, "."+pathLabel+".") {
		return route{}, fmt.Errorf("route %.64q: the label %q is reserved for routes with a path", uri, pathLabel)
	}
	return route{host, path}, nil
}
