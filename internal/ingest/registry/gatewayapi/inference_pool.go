package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The service of an InferencePool has Istio's name and port, so that clusters and metrics have the
// same names: "POOL-ip-HASH" and 54321.
const (
	poolPort       = 54321
	poolSeparator  = "-ip-"
	poolHashLength = 8
	// maxServiceName is the maximum length of the name of a Kubernetes Service.
	maxServiceName = 63
	// poolAppProtocolHTTP2 is the appProtocol of HTTP/2 without TLS.
	poolAppProtocolHTTP2 = "kubernetes.io/h2c"
)

// inferenceVariable is the environment variable that enables InferencePools.
const inferenceVariable = "ENABLE_GATEWAY_API_INFERENCE_EXTENSION"

// isPool reports whether a backendRef names the group and kind of InferencePool. Without a group or
// kind it is none.
func isPool(ref gatewayv1.BackendObjectReference) bool {
	return ref.Group != nil && *ref.Group == inferencev1.GroupName && ref.Kind != nil && *ref.Kind == "InferencePool"
}

// poolServiceName returns the name of the service of an InferencePool, "POOL-ip-HASH". The name of
// the pool is cut so that the result has at most maxServiceName bytes. The hash of the whole name
// keeps names distinct.
func poolServiceName(pool string) string {
	sum := sha256.Sum256([]byte(pool))
	suffix := poolSeparator + hex.EncodeToString(sum[:])[:poolHashLength]
	return pool[:min(len(pool), maxServiceName-len(suffix))] + suffix
}

// poolHost returns the hostname of the service of an InferencePool.
func (c *Converter) poolHost(pool config.Key) mesh.Hostname {
	return mesh.Hostname(poolServiceName(pool.Name) + "." + pool.Namespace + ".svc." + c.options.Domain)
}

// poolBackend resolves a backendRef to an InferencePool to the destination and the endpoint picker
// of its requests. Its port is ignored, as the specification requires. The objects that it refers
// to are added to r.refs.
//
// The destination is nil if the reference cannot be used; verdicts about it go to r.resolved, and
// about an unsupported parent to supported. If the picker cannot be resolved and the pool fails
// open, the pool is used and the picker is nil.
func (r *routeReader) poolBackend(
	field string,
	ref gatewayv1.BackendObjectReference,
	supported *verdict,
) (*networking.Destination, *config.EndpointPicker) {
	c := r.converter
	k := config.Key{Kind: api.InferencePool, Namespace: r.object.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		k.Namespace = string(*ref.Namespace)
	}
	fail := func(reason gatewayv1.RouteConditionReason, format string, args ...any) (*networking.Destination,
		*config.EndpointPicker) {
		r.resolve(verdict{string(reason), field + ": " + fmt.Sprintf(format, args...)})
		return nil, nil
	}
	if !c.options.InferencePools {
		return fail(gatewayv1.RouteReasonInvalidKind, "InferencePools are not enabled: set %s=true", inferenceVariable)
	}
	r.refs = append(r.refs, k)
	if !c.isGranted(r.object.Key, k) {
		return fail(gatewayv1.RouteReasonRefNotPermitted,
			"no ReferenceGrant in namespace %s allows the reference to %s %s", k.Namespace, k.Kind, k.Name)
	}
	pool := specOf[*inferencev1.InferencePool](c.objects.all[k])
	if pool == nil {
		return fail(gatewayv1.RouteReasonBackendNotFound, "%s %s/%s does not exist", k.Kind, k.Namespace, k.Name)
	}
	r.refs = append(r.refs, pickerService(k, pool))
	if len(pool.Spec.TargetPorts) == 0 || len(pool.Spec.Selector.MatchLabels) == 0 {
		return fail(gatewayv1.RouteReasonBackendNotFound, "%s %s/%s has no target ports or no selector", k.Kind,
			k.Namespace, k.Name)
	}
	if r.inMesh {
		supported.worse(unsupported("%s: InferencePools are supported only by gateways", field))
		return nil, nil
	}
	to := &networking.Destination{Host: string(c.poolHost(k)), Port: &networking.PortSelector{Number: poolPort}}
	failOpen := pool.Spec.EndpointPickerRef.FailureMode == inferencev1.EndpointPickerFailOpen
	fault := c.pickerFault(k, pool)
	switch {
	case fault.ok():
		service := pickerService(k, pool)
		return to, &config.EndpointPicker{
			Host: service.Name + "." + service.Namespace + ".svc." + c.options.Domain,
			Port: uint32(pool.Spec.EndpointPickerRef.Port.Number), FailOpen: failOpen, //nolint:gosec // validated by the API
		}
	case failOpen:
		return to, nil
	default:
		return fail(gatewayv1.RouteReasonBackendNotFound, "%s %s/%s has no endpoint picker: %s", k.Kind, k.Namespace,
			k.Name, fault.message)
	}
}

// pickerService returns the key of the Service of an InferencePool's endpoint picker.
func pickerService(pool config.Key, p *inferencev1.InferencePool) config.Key {
	return config.Key{Kind: api.Service, Namespace: pool.Namespace, Name: string(p.Spec.EndpointPickerRef.Name)}
}

// pickerFault returns a failed verdict if the endpoint picker of the InferencePool k is not a port
// of an existing Service, and otherwise an empty verdict. A Service of type ExternalName is
// refused, as the specification requires. The port must exist there, with any protocol.
func (c *Converter) pickerFault(k config.Key, p *inferencev1.InferencePool) verdict {
	const field = "spec.endpointPickerRef"
	invalid := func(format string, args ...any) verdict {
		return verdict{string(inferencev1.InferencePoolReasonInvalidExtensionRef), fmt.Sprintf(format, args...)}
	}
	ref := p.Spec.EndpointPickerRef
	if ref.Group != nil && *ref.Group != "" || ref.Kind != "" && ref.Kind != "Service" {
		return invalid("%s.kind: only Services are supported as endpoint pickers, not kind %q", field, ref.Kind)
	}
	key := pickerService(k, p)
	service := specOf[*corev1.Service](c.objects.all[key])
	switch {
	case service == nil:
		return invalid("%s.name: Service %s/%s does not exist", field, key.Namespace, key.Name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return invalid("%s.name: Service %s/%s is of type ExternalName", field, key.Namespace, key.Name)
	case ref.Port == nil:
		return invalid("%s.port: is required", field)
	case !c.hasPort(key, uint32(ref.Port.Number)): //nolint:gosec // validated by the API
		return invalid("%s.port.number: Service %s/%s has no port %d", field, key.Namespace, key.Name, ref.Port.Number)
	}
	return verdict{}
}

// flushPools converts the marked InferencePools in the order of their keys (flushPool) and clears
// the marks.
func (c *Converter) flushPools(out mesh.Batch) mesh.Batch {
	for _, k := range sortedKeys(c.dirty.pools) {
		out = c.flushPool(out, k)
	}
	clear(c.dirty.pools)
	return out
}

// flushPool converts an InferencePool: it emits its service and Problems and sets its status. It
// has a service only while a route of a Gateway refers to it, and if it has target ports and a
// selector. For a pool that does not exist all are deleted. If the conversion panics, only the
// Problem is emitted.
func (c *Converter) flushPool(out mesh.Batch, k config.Key) mesh.Batch {
	object := c.objects.all[k]
	var service *mesh.Service
	var status *Status
	var problems []config.Problem
	var refs []config.Key
	out, ok := c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
		pool := specOf[*inferencev1.InferencePool](object)
		if pool == nil {
			return
		}
		refs = []config.Key{pickerService(k, pool)}
		fault, parents := c.pickerFault(k, pool), c.poolParents(k)
		status = poolStatus(object, parents, fault)
		if len(parents) > 0 {
			service = c.poolService(object, parents)
		}
		if !fault.ok() {
			problems = append(problems, newProblem(object, "", config.Error, fault))
		}
	})
	if !ok {
		return out
	}
	c.setReferences(k, c.poolRefs[k], refs)
	if c.poolRefs[k] = refs; object == nil {
		delete(c.poolRefs, k)
	}
	c.pending.setStatus(k, status)
	out = c.emitted.emitService(out, k, service)
	return c.emitted.problems.Emit(out, k, problems)
}

// poolParent is a Gateway whose routes refer to an InferencePool.
type poolParent struct {
	gateway    name
	controller string
	// accepted fails if the Gateway accepts none of the routes.
	accepted verdict
}

// poolParents returns the Gateways that are parents of routes that refer to an InferencePool or
// XBackend, sorted by name. The verdict of each fails only if none of its routes is accepted, and
// is then that of the first one. Routes that may not refer to the object are left out.
func (c *Converter) poolParents(pool config.Key) []poolParent {
	found := map[name]poolParent{}
	for _, route := range slices.SortedFunc(c.indexes.reference.Values(pool), config.Key.Compare) {
		state := c.routes[route]
		if state == nil || !c.isGranted(route, pool) {
			continue
		}
		for _, a := range state.attachments {
			if a.gateway == nil {
				continue
			}
			p := poolParent{gateway: a.gateway.name, controller: a.controller}
			if !a.accepted.ok() {
				p.accepted = verdict{
					string(inferencev1.InferencePoolReasonHTTPRouteNotAccepted),
					fmt.Sprintf("%s %s/%s is not accepted: %s", route.Kind, route.Namespace, route.Name,
						a.accepted.message),
				}
			}
			if had, ok := found[p.gateway]; !ok || !had.accepted.ok() && p.accepted.ok() {
				found[p.gateway] = p
			}
		}
	}
	var list []poolParent
	for _, n := range slices.SortedFunc(maps.Keys(found), compareNames) {
		list = append(list, found[n])
	}
	return list
}

// maxPoolParents is the maximum number of parents in the status of an InferencePool.
const maxPoolParents = 32

// poolStatus returns the status of an InferencePool, with an entry for each parent, at most
// maxPoolParents. Its conditions are Accepted, by the parent's verdict, and ResolvedRefs, by
// picker, the verdict about the endpoint picker.
func poolStatus(object *config.Config, parents []poolParent, picker verdict) *Status {
	s := &inferencev1.InferencePoolStatus{}
	for _, p := range parents[:min(len(parents), maxPoolParents)] {
		list := conditionList{generation: object.Generation}
		list.add(string(inferencev1.InferencePoolConditionAccepted), string(inferencev1.InferencePoolReasonAccepted),
			"A route that the Gateway accepts refers to the InferencePool", p.accepted)
		list.add(string(inferencev1.InferencePoolConditionResolvedRefs),
			string(inferencev1.InferencePoolReasonResolvedRefs),
			"The endpoint picker's Service exists", picker)
		group := inferencev1.Group(gatewayGroup)
		s.Parents = append(s.Parents, inferencev1.ParentStatus{
			ParentRef: inferencev1.ParentReference{
				Group: &group, Kind: "Gateway",
				Namespace: inferencev1.Namespace(p.gateway.Namespace), Name: inferencev1.ObjectName(p.gateway.Name),
			},
			ControllerName: inferencev1.ControllerName(p.controller), Conditions: list.list,
		})
	}
	return &Status{Generation: object.Generation, Value: s}
}

// poolService returns the service of an InferencePool, with the port poolPort. It selects the pods
// of the pool's cluster, each at all target ports, and is visible only in the namespaces of the
// parents' Gateways. There must be a parent, because otherwise the mesh's default visibility would
// apply. It returns nil if the pool has no target ports or no selector.
func (c *Converter) poolService(object *config.Config, parents []poolParent) *mesh.Service {
	pool := config.Spec[*inferencev1.InferencePool](object)
	if len(pool.Spec.TargetPorts) == 0 || len(pool.Spec.Selector.MatchLabels) == 0 {
		return nil
	}
	s := mesh.Service{
		ServiceKey:  mesh.ServiceKey{Namespace: object.Namespace, Host: c.poolHost(object.Key)},
		Provider:    mesh.Kubernetes,
		Cluster:     c.options.Cluster,
		Name:        poolServiceName(object.Name),
		Resolution:  mesh.Static,
		Selector:    map[string]string{},
		SelectsPods: true,
		Labels:      object.Labels,
		Created:     object.Created.UTC(),
		From:        object.Key,
	}
	for k, v := range pool.Spec.Selector.MatchLabels {
		s.Selector[string(k)] = string(v)
	}
	port := mesh.Port{Name: "http", Number: poolPort, Protocol: mesh.HTTP}
	if pool.Spec.AppProtocol == poolAppProtocolHTTP2 {
		port.Protocol = mesh.HTTP2
	}
	for _, p := range pool.Spec.TargetPorts {
		s.PoolPorts = append(s.PoolPorts, uint32(p.Number)) //nolint:gosec // validated by the API
	}
	port.Target = s.PoolPorts[0]
	s.Ports = []mesh.Port{port}
	for _, p := range parents {
		if !slices.Contains(s.ExportTo, p.gateway.Namespace) {
			s.ExportTo = append(s.ExportTo, p.gateway.Namespace)
		}
	}
	return s.Sealed()
}
