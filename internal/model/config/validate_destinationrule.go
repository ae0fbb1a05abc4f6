package config

import (
	networking "istio.io/api/networking/v1alpha3"
	"istio.io/api/type/v1beta1"
)

// checkDestinationRule adds Errors for an invalid host, traffic policy, subset, exportTo or
// selector, and for two subsets of one name. The checks of policies and selectors also add
// Warnings. With a workloadSelector, an export to another namespace is an Error.
func (r *report) checkDestinationRule(at path, rule *networking.DestinationRule) {
	r.addFault(at.Child("host"), wildcardFault(rule.GetHost()))
	r.checkTrafficPolicy(at.Child("trafficPolicy"), rule.GetTrafficPolicy())
	seen := map[string]bool{}
	for i, subset := range rule.GetSubsets() {
		here := at.Child("subsets").Index(i)
		r.addFault(here.Child("name"), subsetFault(subset.GetName()))
		if seen[subset.GetName()] {
			r.errorf(here.Child("name"), "subset %q is there twice", subset.GetName())
		}
		seen[subset.GetName()] = true
		r.checkLabels(here.Child("labels"), subset.GetLabels())
		r.checkTrafficPolicy(here.Child("trafficPolicy"), subset.GetTrafficPolicy())
	}
	r.checkExportTo(at.Child("exportTo"), rule.GetExportTo(), false)
	r.checkPolicySelector(at.Child("workloadSelector"), rule.GetWorkloadSelector())
	if rule.GetWorkloadSelector() != nil {
		for i, namespace := range rule.GetExportTo() {
			if namespace != "." && namespace != r.object.Namespace {
				r.errorf(at.Child("exportTo").Index(i),
					"with workloadSelector the rule is for clients of its own namespace and cannot be exported to %q",
					namespace)
			}
		}
	}
}

// checkPolicySelector adds the Errors and Warnings of checkMatchLabels for the matchLabels of a
// selector. It adds nothing if selector is nil.
func (r *report) checkPolicySelector(at path, selector *v1beta1.WorkloadSelector) {
	r.checkMatchLabels(at.Child("matchLabels"), selector.GetMatchLabels(), selector != nil)
}

// checkTrafficPolicy adds Errors for a traffic policy without any field, and for proxyProtocol
// beside tunnel. It adds Errors and Warnings for the fields (checkPortPolicy,
// checkPortLevelSettings, checkTunnel, checkRetryBudget). nil is valid.
func (r *report) checkTrafficPolicy(at path, policy *networking.TrafficPolicy) {
	if policy == nil {
		return
	}
	if policy.GetLoadBalancer() == nil && policy.GetConnectionPool() == nil && policy.GetOutlierDetection() == nil &&
		policy.GetTls() == nil && len(policy.GetPortLevelSettings()) == 0 && policy.GetTunnel() == nil &&
		policy.GetProxyProtocol() == nil && policy.GetRetryBudget() == nil {
		r.errorf(at, "is empty, at least one field is required")
	}
	r.checkPortPolicy(at, policy)
	r.checkPortLevelSettings(at.Child("portLevelSettings"), policy.GetPortLevelSettings())
	r.checkTunnel(at.Child("tunnel"), policy.GetTunnel())
	if policy.GetTunnel() != nil && policy.GetProxyProtocol() != nil {
		r.errorf(at.Child("proxyProtocol"), "must not be set together with tunnel")
	}
	r.checkRetryBudget(at.Child("retryBudget"), policy.GetRetryBudget())
}

// portPolicyFields is the interface that the policies for a service and for one of its ports share.
type portPolicyFields interface {
	GetLoadBalancer() *networking.LoadBalancerSettings
	GetConnectionPool() *networking.ConnectionPoolSettings
	GetOutlierDetection() *networking.OutlierDetection
	GetTls() *networking.ClientTLSSettings
}

// checkPortPolicy adds the Errors and Warnings of the fields that portPolicyFields contains. These
// are loadBalancer, connectionPool, outlierDetection and tls; each may be nil.
func (r *report) checkPortPolicy(at path, policy portPolicyFields) {
	r.checkLoadBalancer(at.Child("loadBalancer"), policy.GetLoadBalancer(), policy.GetOutlierDetection() != nil)
	r.checkConnectionPool(at.Child("connectionPool"), policy.GetConnectionPool())
	r.checkOutlierDetection(at.Child("outlierDetection"), policy.GetOutlierDetection())
	r.checkClientTLS(at.Child("tls"), policy.GetTls())
}

// checkPortLevelSettings adds Errors for settings without a port or without another field, for an
// invalid port number, and for more than 4096 settings. A port with earlier settings is a Warning.
// The checks of the fields (checkPortPolicy) add Errors and Warnings.
func (r *report) checkPortLevelSettings(at path, settings []*networking.TrafficPolicy_PortTrafficPolicy) {
	r.checkMaxItems(at, len(settings), 4096)
	seen := map[uint32]bool{}
	for i, policy := range settings {
		here := at.Index(i)
		if policy.GetPort() == nil {
			r.errorf(here.Child("port"), "is required")
		} else {
			r.checkPortNumber(here.Child("port", "number"), policy.GetPort().GetNumber())
		}
		if number := policy.GetPort().GetNumber(); seen[number] && number != 0 {
			r.warnf(here.Child("port", "number"), "port %d has earlier settings, which take precedence", number)
		}
		seen[policy.GetPort().GetNumber()] = true
		if policy.GetLoadBalancer() == nil && policy.GetConnectionPool() == nil &&
			policy.GetOutlierDetection() == nil &&
			policy.GetTls() == nil {
			r.errorf(here, "at least one field besides port is required")
		}
		r.checkPortPolicy(here, policy)
	}
}

// checkTunnel adds Errors for a tunnel with another protocol than CONNECT or POST (default
// CONNECT), or an invalid or missing target. nil is valid.
func (r *report) checkTunnel(at path, tunnel *networking.TrafficPolicy_TunnelSettings) {
	if tunnel == nil {
		return
	}
	if p := tunnel.GetProtocol(); p != "" && p != "CONNECT" && p != "POST" {
		r.errorf(at.Child("protocol"), "%q must be \"CONNECT\" or \"POST\"", p)
	}
	r.addFault(at.Child("targetHost"), hostOrIPFault(tunnel.GetTargetHost()))
	r.checkPortNumber(at.Child("targetPort"), tunnel.GetTargetPort())
}

// checkRetryBudget adds Errors for a percent that is outside of 0 to 100, or above 0 but below
// minPercent, and for a budgetInterval that is negative or no whole number of milliseconds. Missing
// values, an interval of 0s and a nil budget are valid.
func (r *report) checkRetryBudget(at path, budget *networking.TrafficPolicy_RetryBudget) {
	if budget.GetPercent() != nil {
		r.checkPercent(at.Child("percent"), budget.GetPercent().GetValue())
	}
	r.checkDurationOrZero(at.Child("budgetInterval"), budget.GetBudgetInterval())
}
