package cli

import (
	"encoding/json"
	"fmt"
)

// clusterStatus is a cluster of Envoy's /clusters?format=json.
type clusterStatus struct {
	Name         string       `json:"name"`
	HostStatuses []hostStatus `json:"hostStatuses"`
}

type hostStatus struct {
	Address      socketAddress `json:"address"`
	Weight       uint32        `json:"weight"`
	Locality     locality      `json:"locality"`
	HealthStatus struct {
		EDSHealthStatus         string `json:"edsHealthStatus"`
		FailedActiveHealthCheck bool   `json:"failedActiveHealthCheck"`
		FailedOutlierCheck      bool   `json:"failedOutlierCheck"`
	} `json:"healthStatus"`
}

// assignmentsOf returns an assignment for each cluster in Envoy's /clusters?format=json, whose
// field names must be in camel case, with a locality for each host. It keeps the JSON of each
// cluster. The first malformed cluster is an error.
func assignmentsOf(clusters []json.RawMessage) ([]assignment, error) {
	var list []assignment
	for _, raw := range clusters {
		var c clusterStatus
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("read the clusters: %w", err)
		}
		a := assignment{original: original{raw}, ClusterName: c.Name}
		for i := range c.HostStatuses {
			h := &c.HostStatuses[i]
			a.Endpoints = append(a.Endpoints, localityEndpoints{h.Locality, []lbEndpoint{h.endpoint()}})
		}
		list = append(list, a)
	}
	return list, nil
}

// endpoint returns the host as an endpoint with its EDS health status, or UNHEALTHY if it failed
// its active health check. The outlier check is OK unless Envoy reports a failure.
func (h *hostStatus) endpoint() lbEndpoint {
	e := lbEndpoint{HealthStatus: h.HealthStatus.EDSHealthStatus, Weight: h.Weight, outlierCheck: "OK"}
	e.Endpoint.Address = h.Address
	if h.HealthStatus.FailedActiveHealthCheck {
		e.HealthStatus = "UNHEALTHY"
	}
	if h.HealthStatus.FailedOutlierCheck {
		e.outlierCheck = "FAILED"
	}
	return e
}
