package hostileclients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

type adsStream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// openStream opens a SotW stream of ADS. The caller calls end when it is done.
func (a *attacker) openStream(ctx context.Context, d door) (st adsStream, end func(), err error) {
	conn, err := a.connect(d)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end = func() { cancel(); _ = conn.Close() }
	if st, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return st, end, nil
}

// node is that of a sidecar in the namespace of the honest proxies, unless the attack has an
// identity of another one.
func (a *attacker) node(name string, metadata map[string]any) *corev3.Node {
	all := map[string]any{"NAMESPACE": a.Namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.30.0"}
	if a.identity.Account != "" {
		all["SERVICE_ACCOUNT"] = a.identity.Account
	}
	for k, v := range metadata {
		all[k] = v
	}
	m, err := structpb.NewStruct(all)
	if err != nil {
		panic("an attack's metadata is no Struct: " + err.Error())
	}
	return &corev3.Node{Id: "sidecar~127.0.0.66~" + name + "." + a.Namespace + "~" + a.Domain, Metadata: m}
}

const refusalText = "this proxy does not like it"

// acknowledge answers a response: with a refusal if text is not "".
func acknowledge(st adsStream, r *discoveryv3.DiscoveryResponse, text string, names ...string) error {
	answer := &discoveryv3.DiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce,
		VersionInfo: r.VersionInfo, ResourceNames: names}
	if text != "" {
		answer.VersionInfo, answer.ErrorDetail = "", &status.Status{Code: 13, Message: text}
	}
	return st.Send(answer)
}

// refuseListeners connects, refuses every listener, and reconnects as another proxy. The attack
// targets the suspension of EnvoyFilters after refusals.
func refuseListeners(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	node := a.node(fmt.Sprintf("refuser-%d", r.IntN(20)),
		map[string]any{"LABELS": map[string]any{"app": fmt.Sprint("refuser-", r.IntN(20))}})
	for _, request := range []*discoveryv3.DiscoveryRequest{{Node: node, TypeUrl: api.ClusterType},
		{TypeUrl: api.ListenerType}} {
		if err := st.Send(request); err != nil {
			return err
		}
	}
	for {
		response, err := st.Recv()
		if err != nil {
			return err
		}
		if response.TypeUrl != api.ListenerType {
			err = acknowledge(st, response, "")
		} else {
			a.count(1)
			err = acknowledge(st, response, listenerRefusal(response))
			time.AfterFunc(300*time.Millisecond, cancel)
		}
		if err != nil {
			return err
		}
	}
}

// listenerRefusal is Envoy's error message if it rejects all listeners of a response.
func listenerRefusal(response *discoveryv3.DiscoveryResponse) string {
	text := "Error adding/updating listener(s) "
	for _, x := range response.Resources {
		var l listenerv3.Listener
		if x.UnmarshalTo(&l) == nil {
			text += l.Name + ": " + refusalText + "\n"
		}
	}
	return text
}

// refuseRoutes stays connected, acknowledges clusters, endpoints and listeners at once, and refuses
// every route configuration before a real Envoy can answer.
func refuseRoutes(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	st, end, err := a.openStream(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	node := a.node(fmt.Sprintf("fast-%d", r.IntN(1000)), nil)
	for _, request := range []*discoveryv3.DiscoveryRequest{
		{Node: node, TypeUrl: api.ClusterType}, {TypeUrl: api.ListenerType}, {TypeUrl: api.RouteType,
			ResourceNames: []string{honestRoute}},
	} {
		if err := st.Send(request); err != nil {
			return err
		}
	}
	var endpoints []string
	for n := int64(0); ctx.Err() == nil; {
		response, err := st.Recv()
		if err != nil {
			return err
		}
		switch response.TypeUrl {
		case api.RouteType:
			n++
			a.count(n)
			err = acknowledge(st, response, "route "+honestRoute+": "+refusalText, honestRoute)
		case api.EndpointType:
			err = acknowledge(st, response, "", endpoints...)
		case api.ClusterType:
			endpoints = endpointNames(response)
			if err = acknowledge(st, response, ""); err == nil {
				err = st.Send(&discoveryv3.DiscoveryRequest{TypeUrl: api.EndpointType, ResourceNames: endpoints})
			}
		default:
			err = acknowledge(st, response, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endpointNames returns the clusters of a response that use EDS.
func endpointNames(response *discoveryv3.DiscoveryResponse) []string {
	var names []string
	for _, x := range response.Resources {
		var c clusterv3.Cluster
		if x.UnmarshalTo(&c) == nil && c.GetType() == clusterv3.Cluster_EDS {
			name := c.GetEdsClusterConfig().GetServiceName()
			if name == "" {
				name = c.Name
			}
			names = append(names, name)
		}
	}
	return names
}
