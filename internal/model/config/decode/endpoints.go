package decode

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// endpointsKind is a kind that is only read from manifests. An API server mirrors Endpoints into
// EndpointSlices, and only the EndpointSlices are read from there.
const endpointsKind = "Endpoints"

// isEndpoints reports whether o is an Endpoints object of the core API. It returns false if o could
// not be parsed.
func (o object) isEndpoints() bool { return o.apiVersion() == "v1" && o.kind() == endpointsKind }

// mirrorEndpoints converts an Endpoints object to the EndpointSlices that the mirroring controller
// of an API server creates from it (slicesOf). Unknown fields are Warnings of the first slice. It
// returns nil for objects that the controller does not mirror (notMirrored), and one result with
// only Errors if body cannot be decoded. within is the path of the object in its document; faults
// are the Problems of the document, added to each result.
func (m *manifest) mirrorEndpoints(body []byte, within string, faults []config.Problem) []Decoded {
	var object corev1.Endpoints //nolint:staticcheck // deprecated, and still in users' files
	strict, err := kjson.UnmarshalStrict(body, &object)
	if err != nil {
		var d Decoded
		d.addHardFault(err)
		for i := range d.Problems {
			d.Problems[i].Origin = m.fieldOrigin(within, d.Problems[i].Field)
		}
		d.Problems = append(d.Problems, faults...)
		for i := range d.Problems {
			d.Problems[i].Key = config.Key{Kind: endpointsKind, Namespace: object.Namespace, Name: object.Name}
		}
		return []Decoded{d.atLine(m, m.lines.first)}
	}
	if notMirrored(&object) {
		return nil
	}
	var out []Decoded
	for _, slice := range slicesOf(&object) {
		text, err := json.Marshal(slice)
		if err != nil {
			continue // it was read from JSON
		}
		out = append(out, m.decodeObject(parseObject(text), within, faults))
	}
	var unknown Decoded
	unknown.addStrictFaults(strict, func(string) config.Severity { return config.Warning })
	for _, p := range unknown.Problems {
		p.Key, p.Origin = out[0].Key, m.fieldOrigin(within, p.Field)
		out[0].Problems = append(out[0].Problems, p)
	}
	return out
}

// notMirrored reports whether the mirroring controller ignores e. It does so for the annotation of
// an old leader election lock, and for the label endpointslice.kubernetes.io/skip-mirror=true,
// whose author also wrote EndpointSlices.
func notMirrored(e *corev1.Endpoints) bool { //nolint:staticcheck // deprecated, and still in users' files
	_, lock := e.Annotations["control-plane.alpha.kubernetes.io/leader"]
	return lock || e.Labels[discoveryv1.LabelSkipMirror] == "true"
}

// slicesOf returns the EndpointSlices for an Endpoints object: for each subset one per IP family
// with addresses, ready or not. Without any address it returns one empty IPv4 slice, so that the
// Service has no endpoints.
//
//nolint:staticcheck // deprecated, and still in users' files
func slicesOf(e *corev1.Endpoints) []*discoveryv1.EndpointSlice {
	var list []*discoveryv1.EndpointSlice
	for i, subset := range e.Subsets {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			s := sliceFor(e, fmt.Sprintf("%s-%d-%s", e.Name, i, strings.ToLower(string(family))), family)
			s.Endpoints = append(
				endpointsIn(subset.Addresses, family, true),
				endpointsIn(subset.NotReadyAddresses, family, false)...)
			for _, p := range subset.Ports {
				s.Ports = append(
					s.Ports,
					discoveryv1.EndpointPort{
						Name:        &p.Name,
						Port:        &p.Port,
						Protocol:    &p.Protocol,
						AppProtocol: p.AppProtocol,
					},
				)
			}
			if len(s.Endpoints) > 0 {
				list = append(list, s)
			}
		}
	}
	if list == nil {
		list = append(list, sliceFor(e, e.Name+"-none", discoveryv1.AddressTypeIPv4))
	}
	return list
}

// sliceFor returns an EndpointSlice of an address family without endpoints and ports. It has the
// given name, the namespace, annotations, labels and creation time of e, and the label
// kubernetes.io/service-name with the name of e.
//
//nolint:staticcheck // Endpoints are deprecated, and still in users' files
func sliceFor(e *corev1.Endpoints, name string, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	info, _ := api.Info(api.EndpointSlice)
	s := &discoveryv1.EndpointSlice{AddressType: family}
	s.APIVersion, s.Kind = info.Group+"/"+info.Versions[0], string(info.Kind)
	s.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: e.Namespace, Annotations: e.Annotations, CreationTimestamp: e.CreationTimestamp,
		Labels: withLabel(e.Labels, discoveryv1.LabelServiceName, e.Name),
	}
	return s
}

// endpointsIn returns the endpoints of list with an address of family, and skips the others. Their
// condition ready is the parameter ready. A text that is not an IP address is treated as IPv4; the
// registry reports it. A hostname is set only if the address has one.
func endpointsIn(list []corev1.EndpointAddress, family discoveryv1.AddressType, ready bool) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for _, a := range list {
		ip, err := netip.ParseAddr(a.IP)
		if isIPv6 := err == nil && ip.Is6() && !ip.Is4In6(); isIPv6 != (family == discoveryv1.AddressTypeIPv6) {
			continue
		}
		e := discoveryv1.Endpoint{Addresses: []string{a.IP}, NodeName: a.NodeName, TargetRef: a.TargetRef}
		e.Conditions.Ready = &ready
		if a.Hostname != "" {
			e.Hostname = &a.Hostname
		}
		out = append(out, e)
	}
	return out
}
