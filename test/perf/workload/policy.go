package workload

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	api "istio.io/api/type/v1beta1"
)

const rootNamespace = "istio-system"

func (m *Mesh) addMeshPolicy() {
	m.addSecurity(
		"PeerAuthentication",
		rootNamespace,
		"default",
		peerAuthentication(nil, security.PeerAuthentication_MutualTLS_STRICT),
	)
}

// EditMode switches the mutual TLS mode of a namespace between STRICT and PERMISSIVE. The edit has no
// mark. It returns an error if the namespace has no PeerAuthentication.
func (m *Mesh) EditMode(namespace string) (Edit, error) {
	for _, o := range m.objects {
		spec, ok := o.Spec.(*security.PeerAuthentication)
		if !ok || o.Namespace != namespace {
			continue
		}
		mode := security.PeerAuthentication_MutualTLS_STRICT
		if spec.GetMtls().GetMode() == mode {
			mode = security.PeerAuthentication_MutualTLS_PERMISSIVE
		}
		return Edit{Object: o.markChanged(peerAuthentication(spec.GetSelector(), mode)), Target: "mode/" + namespace}, nil
	}
	return Edit{}, fmt.Errorf("namespace %q has no PeerAuthentication", namespace)
}

// EditAuthorization changes the paths that an AuthorizationPolicy of the whole namespace allows, or
// adds it. number makes the paths new. The edit has no mark.
func (m *Mesh) EditAuthorization(namespace string, number int) Edit {
	const name = "edited"
	spec := &security.AuthorizationPolicy{
		Action: security.AuthorizationPolicy_ALLOW,
		Rules: []*security.Rule{{
			To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{fmt.Sprintf("/edit/%d/*", number)}}}},
		}},
	}
	i := slices.IndexFunc(m.objects, func(o *Object) bool {
		return o.Kind == "AuthorizationPolicy" && o.Namespace == namespace && o.Name == name
	})
	if i < 0 {
		m.addSecurity("AuthorizationPolicy", namespace, name, spec)
		i = len(m.objects) - 1
	}
	return Edit{Object: m.objects[i].markChanged(spec), Target: "policy/" + namespace}
}

func (m *Mesh) addPolicies(i int) {
	namespace := NamespaceName(i)
	switch {
	case m.params.Scope == Mixed && i%2 == 1:
		m.addSidecar(
			namespace,
			"default",
			nil,
			"./*",
			SharedNamespace+"/*",
			NamespaceName(i-1)+"/*",
			rootNamespace+"/*",
		)
	case m.params.Scope == Namespace:
		m.addSidecar(namespace, "default", nil, "./*", rootNamespace+"/*")
	case m.params.Scope == Workload:
		for _, s := range m.byNamespace[namespace] {
			m.addWorkloadPolicies(s)
		}
		return
	}
	if i%3 == 0 {
		m.addSecurity(
			"PeerAuthentication",
			namespace,
			"default",
			peerAuthentication(nil, security.PeerAuthentication_MutualTLS_PERMISSIVE),
		)
	}
	if i%2 == 0 {
		m.addAuthorization(m.byNamespace[namespace][0], "allow-mesh")
	}
}

// addWorkloadPolicies adds every kind of policy that selects the workloads of one service.
func (m *Mesh) addWorkloadPolicies(s *service) {
	app := map[string]string{"app": s.name}
	selector := &api.WorkloadSelector{MatchLabels: app}
	m.addSidecar(s.namespace, s.name, app, "*/*")
	m.addSecurity(
		"PeerAuthentication",
		s.namespace,
		s.name,
		peerAuthentication(selector, security.PeerAuthentication_MutualTLS_PERMISSIVE),
	)
	m.addAuthorization(s, s.name)
	m.addObject("telemetry.istio.io", "Telemetry", s.namespace, s.name, "policy", &telemetry.Telemetry{
		Selector:      selector,
		AccessLogging: []*telemetry.AccessLogging{{Providers: []*telemetry.ProviderRef{{Name: "envoy"}}}},
	})
	m.addNetworking("ProxyConfig", s.namespace, s.name, "policy", &networkingv1beta1.ProxyConfig{
		Selector: selector, EnvironmentVariables: map[string]string{"BENCH_APP": s.name},
	})
	m.addNetworking("EnvoyFilter", s.namespace, s.name, "policy", envoyFilter(s))
}

func (m *Mesh) addSidecar(namespace, name string, selector map[string]string, hosts ...string) {
	spec := &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}}
	if selector != nil {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: selector}
	}
	m.addNetworking("Sidecar", namespace, name, "policy", spec)
}

func (m *Mesh) addAuthorization(s *service, name string) {
	m.addSecurity("AuthorizationPolicy", s.namespace, name, &security.AuthorizationPolicy{
		Selector: &api.WorkloadSelector{MatchLabels: map[string]string{"app": s.name}},
		Action:   security.AuthorizationPolicy_ALLOW,
		Rules: []*security.Rule{
			{
				From: []*security.Rule_From{
					{Source: &security.Source{Namespaces: []string{s.namespace, SharedNamespace}}},
				},
				To: []*security.Rule_To{
					{Operation: &security.Operation{Methods: []string{"GET", "POST"}, Paths: []string{"/api/*"}}},
				},
			},
		},
	})
}

func peerAuthentication(
	selector *api.WorkloadSelector,
	mode security.PeerAuthentication_MutualTLS_Mode,
) *security.PeerAuthentication {
	return &security.PeerAuthentication{Selector: selector, Mtls: &security.PeerAuthentication_MutualTLS{Mode: mode}}
}

// envoyFilter sets the buffer limit of the inbound listener, to another value for each workload.
func envoyFilter(s *service) *networking.EnvoyFilter {
	const least = 100_000
	limit := structpb.NewNumberValue(float64(least + s.index))
	return &networking.EnvoyFilter{
		WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": s.name}},
		ConfigPatches: []*networking.EnvoyFilter_EnvoyConfigObjectPatch{{
			ApplyTo: networking.EnvoyFilter_LISTENER,
			Match:   &networking.EnvoyFilter_EnvoyConfigObjectMatch{Context: networking.EnvoyFilter_SIDECAR_INBOUND},
			Patch: &networking.EnvoyFilter_Patch{
				Operation: networking.EnvoyFilter_Patch_MERGE,
				Value: &structpb.Struct{
					Fields: map[string]*structpb.Value{"per_connection_buffer_limit_bytes": limit},
				},
			},
		}},
	}
}
