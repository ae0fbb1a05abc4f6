package config

import (
	"strconv"

	security "istio.io/api/security/v1beta1"
)

func (r *report) peerAuthentication(at path, policy *security.PeerAuthentication) {
	r.policySelector(at.Child("selector"), policy.GetSelector())
	ports := at.Child("portLevelMtls")
	if len(policy.GetPortLevelMtls()) > 0 && len(policy.GetSelector().GetMatchLabels()) == 0 {
		r.errorf(ports, "needs a selector with labels: the ports are those of certain workloads")
	}
	for _, port := range sortedKeys(policy.GetPortLevelMtls()) {
		r.portNumber(ports.Key(strconv.FormatUint(uint64(port), 10)), port)
	}
}
