package config

import (
	"strconv"

	security "istio.io/api/security/v1beta1"
)

// checkPeerAuthentication adds Errors for an invalid port number, and for ports without a selector
// with labels. The check of the selector (checkPolicySelector) adds Errors and Warnings.
func (r *report) checkPeerAuthentication(at path, policy *security.PeerAuthentication) {
	r.checkPolicySelector(at.Child("selector"), policy.GetSelector())
	ports := at.Child("portLevelMtls")
	if len(policy.GetPortLevelMtls()) > 0 && len(policy.GetSelector().GetMatchLabels()) == 0 {
		r.errorf(ports, "needs a selector with labels: the ports are those of certain workloads")
	}
	for _, port := range sortedKeys(policy.GetPortLevelMtls()) {
		r.checkPortNumber(ports.Key(strconv.FormatUint(uint64(port), 10)), port)
	}
}
