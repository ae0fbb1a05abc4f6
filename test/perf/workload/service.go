package workload

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

const domain = "svc.cluster.local"

// service contains the parameters of one service's objects.
type service struct {
	index     int
	namespace string
	name      string
	addresses []string
	zones     []int
	subsets   bool
	// What changes set: an additional endpoint, endpoints in place of others, the value of a
	// request header, the size of a connection pool.
	extra          string
	replaced       map[int]string
	header         string
	maxConnections int32

	entry, rule, virtual *Object
}

func (s *service) hostName() string { return s.name + "." + s.namespace + "." + domain }

func (s *service) podLabels(version int) map[string]string {
	return map[string]string{
		"app": s.name, "version": fmt.Sprintf("v%d", version),
		"security.istio.io/tlsMode":           "istio",
		"service.istio.io/canonical-name":     s.name,
		"service.istio.io/canonical-revision": fmt.Sprintf("v%d", version),
	}
}

func (s *service) serviceEntry() proto.Message {
	se := &networking.ServiceEntry{
		Hosts: []string{s.hostName()}, Addresses: []string{virtualIP(s.index)},
		Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{
			{Number: 80, TargetPort: 8080, Name: "http", Protocol: "HTTP"},
			{Number: 9000, TargetPort: 9000, Name: "tcp", Protocol: "TCP"},
		},
	}
	for i, ip := range s.addresses {
		if r, ok := s.replaced[i]; ok {
			ip = r
		}
		se.Endpoints = append(se.Endpoints, s.workloadEntry(ip, s.zones[i], i%2+1))
	}
	if s.extra != "" {
		se.Endpoints = append(se.Endpoints, s.workloadEntry(s.extra, 0, 1))
	}
	return se
}

func (s *service) workloadEntry(ip string, zone, version int) *networking.WorkloadEntry {
	return &networking.WorkloadEntry{
		Address:        ip,
		Labels:         s.podLabels(version),
		ServiceAccount: s.name,
		Locality:       fmt.Sprintf("region-1/zone-%d", zone+1),
	}
}

func (s *service) destinationRule() proto.Message {
	dr := &networking.DestinationRule{
		Host: s.hostName(),
		TrafficPolicy: &networking.TrafficPolicy{
			ConnectionPool: &networking.ConnectionPoolSettings{
				Tcp: &networking.ConnectionPoolSettings_TCPSettings{
					MaxConnections: s.maxConnections,
					ConnectTimeout: durationpb.New(2e9),
				},
				Http: &networking.ConnectionPoolSettings_HTTPSettings{
					Http1MaxPendingRequests:  256,
					MaxRequestsPerConnection: 100,
				},
			},
			OutlierDetection: &networking.OutlierDetection{
				Consecutive_5XxErrors: wrapperspb.UInt32(
					7,
				),
				Interval:         durationpb.New(30e9),
				BaseEjectionTime: durationpb.New(60e9),
			},
			LoadBalancer: &networking.LoadBalancerSettings{
				LbPolicy: &networking.LoadBalancerSettings_Simple{
					Simple: networking.LoadBalancerSettings_LEAST_REQUEST,
				},
			},
		},
	}
	if s.subsets {
		for v := 1; v <= 2; v++ {
			name := fmt.Sprintf("v%d", v)
			dr.Subsets = append(dr.Subsets, &networking.Subset{Name: name, Labels: map[string]string{"version": name}})
		}
	}
	return dr
}

// virtualService has weighted routes by path and header; the last one takes the rest.
func (m *Mesh) virtualService(s *service) proto.Message {
	vs := &networking.VirtualService{Hosts: []string{s.hostName()}}
	peers := m.byNamespace[s.namespace]
	other := peers[(s.index/m.params.Namespaces+1)%len(peers)]
	for r := range m.params.Routes {
		a, b := &networking.Destination{Host: s.hostName()}, &networking.Destination{Host: other.hostName()}
		if s.subsets {
			a.Subset = "v1"
			b = &networking.Destination{Host: s.hostName(), Subset: "v2"}
		}
		weight := int32(10 + (s.index+r)%80)
		route := &networking.HTTPRoute{
			Name: fmt.Sprintf("route-%d", r),
			Route: []*networking.HTTPRouteDestination{
				{Destination: a, Weight: weight},
				{Destination: b, Weight: 100 - weight},
			},
			Timeout: durationpb.New(15e9),
			Retries: &networking.HTTPRetry{Attempts: 2, PerTryTimeout: durationpb.New(5e9), RetryOn: "5xx,reset"},
			Headers: &networking.Headers{
				Request: &networking.Headers_HeaderOperations{Set: map[string]string{"x-bench-rev": s.header}},
			},
		}
		if r < m.params.Routes-1 {
			route.Match = []*networking.HTTPMatchRequest{{
				Uri:     prefixMatch(fmt.Sprintf("/api/v%d/", r+1)),
				Headers: map[string]*networking.StringMatch{"x-tenant": exactMatch(fmt.Sprintf("tenant-%d", r))},
			}}
			if m.params.Scope == Workload {
				route.Match[0].SourceLabels = map[string]string{"app": other.name}
			}
		}
		vs.Http = append(vs.Http, route)
	}
	return vs
}

func prefixMatch(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}
}

func exactMatch(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: s}}
}
