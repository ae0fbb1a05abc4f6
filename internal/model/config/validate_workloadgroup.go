package config

import (
	networking "istio.io/api/networking/v1alpha3"
)

// checkWorkloadGroup adds Errors for invalid labels, a missing template, invalid labels or ports of
// the template, and an invalid probe. An address in the template is a Warning, and its other fields
// are not checked. A probe may be missing.
func (r *report) checkWorkloadGroup(at path, group *networking.WorkloadGroup) {
	r.checkLabels(at.Child("metadata", "labels"), group.GetMetadata().GetLabels())
	template := at.Child("template")
	if group.GetTemplate() == nil {
		r.errorf(template, "is required")
	} else {
		// The address of each workload is set when it connects.
		r.checkLabels(template.Child("labels"), group.GetTemplate().GetLabels())
		r.checkEndpointPorts(template.Child("ports"), group.GetTemplate(), nil)
		if group.GetTemplate().GetAddress() != "" {
			r.warnf(template.Child("address"), "is ignored: each workload has its own")
		}
	}
	if group.GetProbe() != nil {
		r.checkReadinessProbe(at.Child("probe"), group.GetProbe())
	}
}

// checkReadinessProbe adds Errors for an invalid readiness probe of a WorkloadGroup, which needs
// exactly one kind of check: negative times and thresholds, an invalid port, scheme or header name,
// or an empty command. Only the port of a gRPC check is optional.
func (r *report) checkReadinessProbe(at path, probe *networking.ReadinessProbe) {
	r.checkNonNegative(at.Child("initialDelaySeconds"), probe.GetInitialDelaySeconds())
	r.checkNonNegative(at.Child("timeoutSeconds"), probe.GetTimeoutSeconds())
	r.checkNonNegative(at.Child("periodSeconds"), probe.GetPeriodSeconds())
	r.checkNonNegative(at.Child("successThreshold"), probe.GetSuccessThreshold())
	r.checkNonNegative(at.Child("failureThreshold"), probe.GetFailureThreshold())
	switch check := probe.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		at := at.Child("httpGet")
		r.checkPortNumber(at.Child("port"), check.HttpGet.GetPort())
		if s := check.HttpGet.GetScheme(); s != "" && s != "HTTP" && s != "HTTPS" {
			r.errorf(at.Child("scheme"), "%q must be \"HTTP\" or \"HTTPS\"", s)
		}
		for i, header := range check.HttpGet.GetHttpHeaders() {
			r.addFault(at.Child("httpHeaders").Index(i).Child("name"), HeaderNameFault(header.GetName()))
		}
	case *networking.ReadinessProbe_TcpSocket:
		r.checkPortNumber(at.Child("tcpSocket", "port"), check.TcpSocket.GetPort())
	case *networking.ReadinessProbe_Grpc:
		r.checkOptionalPort(at.Child("grpc", "port"), check.Grpc.GetPort())
	case *networking.ReadinessProbe_Exec:
		if len(check.Exec.GetCommand()) == 0 {
			r.errorf(at.Child("exec", "command"), "is required")
		}
	default:
		r.errorf(at, "one of httpGet, tcpSocket, grpc and exec is required")
	}
}
