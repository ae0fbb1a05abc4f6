package lint

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// checkEntryAddresses reports TCP ports of ServiceEntries without addresses, unless addresses are
// allocated for the proxies' DNS. A port without a protocol is a TCP port. It does nothing if the
// mesh's proxies capture DNS with allocation. Addresses in the status count.
func (r *analysisRun) checkEntryAddresses() {
	metadata := r.snapshot.Settings.Mesh.GetDefaultConfig().GetProxyMetadata()
	if metadata["ISTIO_META_DNS_CAPTURE"] == "true" &&
		(metadata["ISTIO_META_DNS_AUTO_ALLOCATE"] == "true" || metadata["PILOT_ENABLE_IP_AUTOALLOCATE"] == "true") {
		return
	}
	for o, spec := range specsOf[*networking.ServiceEntry](r, api.ServiceEntry) {
		if len(spec.GetAddresses()) > 0 || (o.config.Status != nil && len(o.config.Status.Addresses) > 0) {
			continue
		}
		for i, p := range spec.GetPorts() {
			if p.GetProtocol() == "" || strings.EqualFold(p.GetProtocol(), "TCP") {
				r.report(
					code.ServiceEntryAddressesRequired,
					o,
					fmt.Sprintf("spec.ports[%d]", i),
					"is a TCP port, and spec.addresses is empty",
				)
			}
		}
	}
}

// checkEntryProtocols reports ServiceEntries that have one host and port with different protocols
// and are visible in one namespace. The case of protocols does not matter.
func (r *analysisRun) checkEntryProtocols() {
	type endpoint struct {
		host string
		port uint32
	}
	type use struct {
		object   *object
		spec     *networking.ServiceEntry
		protocol string
		field    string
	}
	uses := map[endpoint][]use{}
	for o, spec := range specsOf[*networking.ServiceEntry](r, api.ServiceEntry) {
		for _, host := range spec.GetHosts() {
			for i, p := range spec.GetPorts() {
				at := endpoint{host, p.GetNumber()}
				now := use{o, spec, strings.ToUpper(p.GetProtocol()), fmt.Sprintf("spec.ports[%d].protocol", i)}
				for _, other := range uses[at] {
					if other.object != o && other.protocol != now.protocol &&
						shareNamespace(other.object, other.spec.GetExportTo(), o, spec.GetExportTo()) {
						r.addProblem(config.Problem{
							Code: code.ConflictingServiceEntryProtocol, Key: o.key, Origin: o.origin(),
							Field: now.field, Severity: config.Warning, Conflict: other.object.key,
							Reason: fmt.Sprintf(
								"host %s has port %d with the protocol %s here, and %s in ServiceEntry %s/%s",
								host, p.GetNumber(), now.protocol, other.protocol,
								other.object.key.Namespace, other.object.key.Name),
						})
					}
				}
				uses[at] = append(uses[at], now)
			}
		}
	}
}

// shareNamespace reports whether two objects are visible in a common namespace. exportA and exportB
// are their exportTo; an empty one exports to all namespaces, "~" to none.
func shareNamespace(a *object, exportA []string, b *object, exportB []string) bool {
	visible := func(o *object, export []string) []string {
		if len(export) == 0 {
			return []string{"*"}
		}
		list := slices.Clone(export)
		for i, n := range list {
			if n == "." {
				list[i] = o.key.Namespace
			}
		}
		return list
	}
	of, other := visible(a, exportA), visible(b, exportB)
	return slices.ContainsFunc(of, func(n string) bool {
		return n != "~" &&
			slices.ContainsFunc(other, func(m string) bool { return m != "~" && (n == m || n == "*" || m == "*") })
	})
}

// checkServerVerification reports DestinationRules that originate TLS (SIMPLE or MUTUAL), for all
// ports or for one, without certificates to verify servers against. A credentialName verifies them
// only with a workloadSelector; insecureSkipVerify is accepted. Subsets are not checked.
func (r *analysisRun) checkServerVerification() {
	for o, spec := range specsOf[*networking.DestinationRule](r, api.DestinationRule) {
		unverified := func(t *networking.ClientTLSSettings) bool {
			originates := t.GetMode() == networking.ClientTLSSettings_SIMPLE ||
				t.GetMode() == networking.ClientTLSSettings_MUTUAL
			return t != nil && originates && t.GetCaCertificates() == "" && !t.GetInsecureSkipVerify().GetValue() &&
				(t.GetCredentialName() == "" || spec.GetWorkloadSelector() == nil)
		}
		const reason = "originates TLS without certificates to verify the server of %s against"
		p := spec.GetTrafficPolicy()
		if unverified(p.GetTls()) {
			r.report(
				code.NoServerCertificateVerificationDestinationLevel,
				o,
				"spec.trafficPolicy.tls",
				reason,
				spec.GetHost(),
			)
		}
		for i, port := range p.GetPortLevelSettings() {
			if unverified(port.GetTls()) {
				r.report(
					code.NoServerCertificateVerificationPortLevel,
					o,
					fmt.Sprintf("spec.trafficPolicy.portLevelSettings[%d].tls", i),
					reason,
					spec.GetHost(),
				)
			}
		}
	}
}
