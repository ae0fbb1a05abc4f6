package lint

import (
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// Check is one analysis.
type Check struct {
	Name, Description string
	// Live reports whether a control plane has the check too.
	Live bool
	run  func(r *analysisRun)
}

// Checks returns all checks, in the order in which they run.
func Checks() []Check {
	return []Check{
		{"mesh", "references, conflicts and fields without effect, as found by a running control plane", true,
			(*analysisRun).checkMesh},
		{"proxies", "conflicts of services, servers, routes and patches in the configuration of the proxies that the files imply", true, (*analysisRun).checkViews},
		{"annotations", "annotations of Istio that are unknown, misplaced, invalid, deprecated or alpha", false,
			(*analysisRun).checkAnnotations},
		{"conditions", "conditions with which a controller refuses an object", false, (*analysisRun).checkConditions},
		{"namespaces", "labels of injection of namespaces", false, (*analysisRun).checkNamespaces},
		{"sidecars", "pods without a proxy, or with another image of it than injection uses", false,
			(*analysisRun).checkSidecarContainers},
		{"auto-images", "the image auto in pods that are not injected", false, (*analysisRun).checkAutoImages},
		{"users", "applications that run as the user of the proxy", false, (*analysisRun).checkUsers},
		{"deployments", "Deployments behind several Services with different protocols or ports", false,
			(*analysisRun).checkDeploymentServices},
		{"webhooks", "injection webhooks that overlap or refer to no Service", false, (*analysisRun).checkWebhooks},
		{"external-control-plane", "addresses of webhooks of an external control plane", false,
			(*analysisRun).checkExternalControlPlane},
		{"ports", "names of ports of Services", false, (*analysisRun).checkPortNames},
		{"envoy-filters", "operations of EnvoyFilters without effect, or relative to other filters", false,
			(*analysisRun).checkPatches},
		{"entry-addresses", "TCP ports of ServiceEntries without addresses", false, (*analysisRun).checkEntryAddresses},
		{"entry-protocols", "ServiceEntries with different protocols of one host and port", false,
			(*analysisRun).checkEntryProtocols},
		{"server-verification", "DestinationRules that originate TLS without verifying servers", false,
			(*analysisRun).checkServerVerification},
		{"gateway-conflicts", "servers of Gateways with the same port and host", false,
			(*analysisRun).checkGatewayConflicts},
		{"gateway-certificates", "Gateways with the same certificate", false, (*analysisRun).checkGatewayCertificates},
		{"gateway-hosts", "hosts of VirtualServices that their Gateways do not accept", false,
			(*analysisRun).checkGatewayHosts},
		{"gateway-credentials", "Secrets of Gateways", false, (*analysisRun).checkGatewayCredentials},
		{"claim-routes", "routes by token claims without a RequestAuthentication", false,
			(*analysisRun).checkClaimRoutes},
		{"destinations", "destinations that are not visible, or without a port whose service has several", false,
			(*analysisRun).checkDestinations},
		{"ingress-subsets", "routes of gateways that bypass routes to subsets", false,
			(*analysisRun).checkIngressSubsets},
		{"matches", "routes and matches that earlier routes have", false, (*analysisRun).checkEqualMatches},
		{"definitions", "definitions of kinds of the Gateway API", false, (*analysisRun).checkDefinitions},
		{"selectors", "selectors of Sidecars and Telemetries", false, (*analysisRun).checkSelectors},
		{"ambient", "Sidecars in namespaces of the ambient mode", false, (*analysisRun).checkAmbient},
		{"gateway-selectors", "policies that select proxies of the Gateway API by labels", false,
			(*analysisRun).checkGatewaySelectors},
		{"providers", "providers of Telemetries", false, (*analysisRun).checkProviders},
		{"key-addresses", "addresses from which keys of token issuers are fetched", false,
			(*analysisRun).checkKeyAddresses},
		{"policy-namespaces", "namespaces that AuthorizationPolicies name", false,
			(*analysisRun).checkPolicyNamespaces},
		{"registries", "registries in MeshNetworks", false, (*analysisRun).checkRegistries},
	}
}

// checkMesh adds the Problems that a control plane reports for the snapshot. Problems of its
// analysis and of certificates are left out for generated objects (isGenerated).
func (r *analysisRun) checkMesh() {
	var certificates secret.Inspector
	analyzer := analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh})
	r.problems = append(r.problems, r.snapshot.Problems()...)
	for _, p := range append(analyzer.Analyze(r.snapshot), certificates.Problems(r.snapshot, r.options.Now)...) {
		if !r.isGenerated(p.Key) {
			r.addProblem(p)
		}
	}
	r.problems = append(r.problems, plugin.Problems(r.snapshot)...)
}

// isGenerated reports whether an object is in no file, because it is generated from another one, or
// describes proxies that a control plane deploys: a Gateway of the Gateway API has no workload
// before it is deployed. It returns false for the zero key.
func (r *analysisRun) isGenerated(k config.Key) bool {
	return k.Kind == api.KubernetesGateway || (k != (config.Key{}) && r.byKey[k] == nil)
}

// checkViews adds the conflicts in the configuration of the proxies that the files imply. Problems
// of RequestAuthentications are left out, because keys of issuers are not fetched here.
func (r *analysisRun) checkViews() {
	var keys []view.Key
	for _, p := range offline.Proxies(r.snapshot) {
		keys = append(keys, view.KeyFor(r.snapshot, p))
	}
	for _, p := range translate.NewTable(translate.Options{}).ConflictsOf(r.snapshot, keys) {
		if p.Key.Kind != api.RequestAuthentication { // keys of issuers are not fetched here
			r.addProblem(p)
		}
	}
}
