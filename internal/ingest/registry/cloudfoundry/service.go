package cloudfoundry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// The port of every service: routes have none, and Cloud Foundry's router serves HTTP on port 80.
const (
	portName   = "http"
	portNumber = 80
)

// pathLabel is the label in hosts of services for routes with a path.
const pathLabel = "cf-path"

// newRegistration converts a message to the registration of an instance. The port is the TLS port
// if there is one and BackendTLS is set, else the plain port. It returns an error if that port is
// missing, or if the message has no name to verify for its TLS port. The registration shares the
// message's tags.
func (s *Settings) newRegistration(m *message) (registration, error) {
	r := registration{updatedAt: m.updatedAt(), lifetime: m.lifetime()}
	r.properties = properties{
		address: m.Host, port: m.Port, id: m.PrivateInstanceID, index: m.PrivateInstanceIndex, app: m.App,
		segment: m.IsolationSegment, zone: m.AvailabilityZone, http2: m.Protocol == "http2",
		behindRouteService: m.RouteServiceURL != "",
	}
	if s.BackendTLS && m.TLSPort != 0 {
		r.port, r.tls, r.san = m.TLSPort, true, m.ServerCertDomainSAN
	}
	if r.port == 0 && m.TLSPort != 0 {
		return registration{}, errors.New("tls_port: is the only port, which --cloudFoundryBackendTLS must allow")
	}
	if r.port == 0 {
		return registration{}, errors.New("port: is missing")
	}
	if r.tls && r.san == "" {
		return registration{}, errors.New("server_cert_domain_san: is missing; the instance could not be verified")
	}
	r.tags = m.Tags
	return r, nil
}

// selects reports whether routes of an isolation segment are read. Without a configured segment it
// reads all; the segment "" is sharedSegment.
func (s *Settings) selects(segment string) bool {
	return len(s.Segments) == 0 || slices.Contains(s.Segments, cmp.Or(segment, sharedSegment))
}

// keyOf returns the key of the service of a route.
func (s *Settings) keyOf(r route) adapter.ServiceKey {
	return adapter.ServiceKey{Namespace: s.Namespace, Name: r.String()}
}

// errRouteService refuses routes whose requests must pass another service first.
var errRouteService = errors.New("route_service_url: requests would bypass the route service, so the route is not used")

// newService returns the service of a route, with its instances in the order of their keys and the
// certificate names of those with TLS. Instances without TLS are left out if others have it; an
// error with their number is then returned besides the service. The service is empty, with an
// error, if an instance is behind a route service, or no service can have the route's host. Its
// port is HTTP2 only if there are instances and all of them speak it, left out or not.
func (s *Settings) newService(r route, instances map[string]registration) (adapter.Service, error) {
	host, err := serviceHost(r)
	if err != nil {
		return adapter.Service{}, err
	}
	x := adapter.Service{ServiceKey: s.keyOf(r), Hosts: []string{host}}
	port := adapter.Port{Name: portName, Number: portNumber, Protocol: "HTTP2"}
	tls, http1 := false, len(instances) == 0
	for _, i := range instances {
		if i.behindRouteService {
			return adapter.Service{}, errRouteService
		}
		tls, http1 = tls || i.tls, http1 || !i.http2
	}
	if http1 {
		port.Protocol = "HTTP"
	}
	x.Ports = []adapter.Port{port}
	plain := 0
	names := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(instances)) {
		i := instances[key]
		if tls && !i.tls {
			plain++
			continue
		}
		if i.tls {
			names[i.san] = true
		}
		x.Instances = append(x.Instances, s.newInstance(&i.instance))
	}
	x.SubjectAltNames = slices.Sorted(maps.Keys(names))
	if plain > 0 {
		err = fmt.Errorf("tls_port: %d instances have none and are left out, because others of the service have one",
			plain)
	}
	return x, err
}

// newInstance returns the instance with its port and labels. Its locality is REGION/ZONE, or empty
// if no region is set, or if the zone is empty or has a slash.
func (s *Settings) newInstance(i *instance) adapter.Instance {
	x := adapter.Instance{
		ID:      net.JoinHostPort(i.address, strconv.Itoa(int(i.port))),
		Address: i.address, Ports: map[string]uint32{portName: uint32(i.port)}, Labels: labelsOf(i),
	}
	if s.Region != "" && i.zone != "" && !strings.Contains(i.zone, "/") {
		x.Locality = s.Region + "/" + i.zone
	}
	return x
}

// labelsOf returns the tags of an instance that are valid labels, also empty ones, and labels for
// its other properties unless there are tags with these names. Invalid values, and properties that
// are empty, are left out. The label "app" is the tag "app", or else the tag app_name.
func labelsOf(i *instance) map[string]string {
	labels := make(map[string]string, len(i.tags)+6)
	for k, v := range i.tags {
		if isLabel(k, v) {
			labels[k] = v
		}
	}
	for _, l := range [...][2]string{
		{"app", i.tags["app_name"]}, {"app_id", i.app}, {"instance_id", i.id}, {"instance_index", i.index},
		{"isolation_segment", i.segment}, {"availability_zone", i.zone},
	} {
		if _, tagged := labels[l[0]]; !tagged && l[1] != "" && isLabel(l[0], l[1]) {
			labels[l[0]] = l[1]
		}
	}
	return labels
}

// isLabel reports whether a tag can be a label: key and value must be valid in Kubernetes. Names
// with a prefix ("security.istio.io/tlsMode") and istio-locality are excluded: they configure the
// mesh, and the owners of applications set tags.
func isLabel(key, value string) bool {
	return !strings.Contains(key, "/") && key != "istio-locality" &&
		len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// serviceHost returns the host of the service for a route: the route's own host without a path.
// Hosts of services have no paths, so a route with the path /a/b has the host b.a.cf-path.HOST,
// which VirtualServices can name as a destination. A part of the path that is no DNS label is
// replaced by "x-" and a hash. It returns an error for a wildcard with a path, and if the host with
// the path exceeds 253 bytes.
func serviceHost(r route) (string, error) {
	if r.path == "" {
		return r.host, nil
	}
	if strings.HasPrefix(r.host, "*.") {
		return "", errors.New("uris: a route with a wildcard and a path cannot be the host of a service")
	}
	labels := strings.Split(strings.TrimPrefix(r.path, "/"), "/")
	for i, l := range labels {
		if len(validation.IsDNS1123Label(l)) > 0 {
			hash := sha256.Sum256([]byte(l))
			labels[i] = "x-" + hex.EncodeToString(hash[:8])
		}
	}
	slices.Reverse(labels)
	host := strings.Join(labels, ".") + "." + pathLabel + "." + r.host
	if len(host) > 253 {
		return "", fmt.Errorf("uris: the path is too long for a host of a service, %s", truncate.Text(host, 64))
	}
	return host, nil
}
