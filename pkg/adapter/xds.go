package adapter

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// xdsServer serves a catalog as configuration over xDS, in both variants of the protocol. Types
// other than ServiceEntry have no resources: clients wait for an answer of each type.
type xdsServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	catalog  *catalog
	log      *slog.Logger
	stopping <-chan struct{}
}

// isServiceEntry reports whether a type URL is one of ServiceEntries, in any version of their API.
func isServiceEntry(typeURL string) bool {
	return strings.HasPrefix(typeURL, "networking.istio.io/") && strings.HasSuffix(typeURL, "/ServiceEntry")
}

// maxTypes limits the types that one stream may subscribe to, of which there are about 20.
const maxTypes = 100

// receiveAll passes the messages of a stream to the channel until receive fails or ctx ends, and
// returns that error.
func receiveAll[T any](ctx context.Context, receive func() (T, error), requests chan<- T) error {
	for {
		r, err := receive()
		if err != nil {
			return err
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream is one stream of a variant of the protocol, with requests of type Request and
// subscriptions of type Subscription.
type stream[Request, Subscription any] struct {
	server  *xdsServer
	receive func() (Request, error)
	// subscribed are the subscriptions by type URL.
	subscribed map[string]*Subscription
	// handle applies a request to subscribed.
	handle func(Request)
	// send sends the response that is owed for a subscription, if any. It must not modify the
	// resources.
	send func(typeURL string, s *Subscription, resources map[string]*resource, version uint64, ready bool) error
}

// serve handles requests and calls send for each subscribed type after each request and each change
// of the catalog. It returns when the stream ends, with its error, or nil when the server stops.
func (x *stream[Request, Subscription]) serve(ctx context.Context) error {
	requests, ended := make(chan Request), make(chan error, 1)
	go func() { ended <- receiveAll(ctx, x.receive, requests) }()
	for {
		resources, version, changed, ready := x.server.catalog.state()
		for _, typeURL := range slices.Sorted(maps.Keys(x.subscribed)) {
			if err := x.send(typeURL, x.subscribed[typeURL], resources, version, ready); err != nil {
				return err
			}
		}
		select {
		case err := <-ended:
			return err
		case <-x.server.stopping:
			return nil
		case <-changed:
		case r := <-requests:
			x.handle(r)
		}
	}
}

// StreamAggregatedResources serves the state-of-the-world variant of xDS until the stream ends, and
// returns the stream's error, or nil if the server stops. The first request for a type subscribes,
// without names to all. Later ones with another nonce than the last response's are ignored, and so
// are types beyond maxTypes. Rejections are logged; changed names cause a response.
func (x *xdsServer) StreamAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	subscribed := map[string]*sotwType{}
	served := stream[*discoveryv3.DiscoveryRequest, sotwType]{
		server: x, receive: s.Recv, subscribed: subscribed,
		handle: func(r *discoveryv3.DiscoveryRequest) {
			t := subscribed[r.GetTypeUrl()]
			switch {
			case t == nil && len(subscribed) < maxTypes:
				names := r.GetResourceNames()
				subscribed[r.GetTypeUrl()] = &sotwType{names: names, all: len(names) == 0, due: true}
			case t == nil || r.GetResponseNonce() != t.nonce:
			case r.GetErrorDetail() != nil:
				x.logReject(r.GetTypeUrl(), r.GetErrorDetail().GetMessage())
			case t.all && len(r.GetResourceNames()) == 0: // acknowledges
			case t.all || !slices.Equal(t.names, r.GetResourceNames()):
				t.names, t.all, t.due = r.GetResourceNames(), false, true
			}
		},
		send: func(typeURL string, t *sotwType, resources map[string]*resource, version uint64, ready bool) error {
			return x.sendFull(s, typeURL, t, resources, version, ready)
		},
	}
	return served.serve(s.Context())
}

// sotwType is a subscription of a state-of-the-world stream.
type sotwType struct {
	names   []string // of the last request; "*" is all
	all     bool     // no request has had names yet, which subscribes to all
	due     bool     // an answer is owed whatever the version
	version uint64   // sent last
	nonce   string
	sent    int
}

// sendFull sends the resources of a type if an answer is owed or, for ServiceEntries, if the
// catalog changed since the last response, and updates t. ServiceEntries are not sent before the
// catalog is ready. Names that the client does not want are left out. The answer of another type
// has no resources.
func (x *xdsServer) sendFull(
	s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
	typeURL string, t *sotwType, resources map[string]*resource, version uint64, ready bool,
) error {
	entries := isServiceEntry(typeURL)
	if entries && (!ready || !t.due && t.version == version) || !entries && !t.due {
		return nil
	}
	var list []*anypb.Any
	if entries {
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			if t.all || isWanted(t.names, name) {
				list = append(list, resources[name].body)
			}
		}
	}
	t.sent++
	t.due, t.version, t.nonce = false, version, strconv.Itoa(t.sent)
	x.catalog.requests.Inc()
	return s.Send(&discoveryv3.DiscoveryResponse{
		TypeUrl: typeURL, VersionInfo: strconv.FormatUint(version, 10), Nonce: t.nonce, Resources: list,
	})
}

// isWanted reports whether names contain the resource name, or "*", which selects all resources.
func isWanted(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, "*")
}

// DeltaAggregatedResources serves the incremental variant of xDS until the stream ends, and returns
// the stream's error, or nil if the server stops. The first request for a type subscribes, without
// names to all, and names the versions that the client has. Later ones change the names; types
// beyond maxTypes are ignored. Rejections are logged.
func (x *xdsServer) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	subscribed := map[string]*deltaType{}
	served := stream[*discoveryv3.DeltaDiscoveryRequest, deltaType]{
		server: x, receive: s.Recv, subscribed: subscribed,
		handle: func(r *discoveryv3.DeltaDiscoveryRequest) {
			t := subscribed[r.GetTypeUrl()]
			switch {
			case t == nil && len(subscribed) < maxTypes:
				names := r.GetResourceNamesSubscribe()
				t = &deltaType{has: r.GetInitialResourceVersions(), due: true, names: names, all: len(names) == 0}
				if t.has == nil {
					t.has = map[string]string{}
				}
				subscribed[r.GetTypeUrl()] = t
			case t == nil:
			default:
				if r.GetErrorDetail() != nil {
					x.logReject(r.GetTypeUrl(), r.GetErrorDetail().GetMessage())
				}
				t.changeNames(r)
			}
		},
		send: func(typeURL string, t *deltaType, resources map[string]*resource, version uint64, ready bool) error {
			return x.sendChanges(s, typeURL, t, resources, version, ready)
		},
	}
	return served.serve(s.Context())
}

// deltaType is a subscription of an incremental stream.
type deltaType struct {
	names   []string          // "*" is all
	all     bool              // the first request had no names, and "*" was not unsubscribed since
	has     map[string]string // the versions that the client has
	due     bool              // an answer is owed, even if it is empty
	version uint64
	sent    int
}

// wants reports whether the subscription includes the resource name.
func (t *deltaType) wants(name string) bool { return t.all || isWanted(t.names, name) }

// changeNames applies a request that adds or removes names to the subscription. A name that is
// added, again or for the first time, is sent again. Removing "*" ends a subscription to all that
// began without names; other names stay. The client no longer has what it does not want.
func (t *deltaType) changeNames(r *discoveryv3.DeltaDiscoveryRequest) {
	for _, name := range r.GetResourceNamesUnsubscribe() {
		t.names = slices.DeleteFunc(slices.Clone(t.names), func(n string) bool { return n == name })
		t.all = t.all && name != "*"
	}
	maps.DeleteFunc(t.has, func(name, _ string) bool { return !t.wants(name) })
	for _, name := range r.GetResourceNamesSubscribe() {
		if !slices.Contains(t.names, name) {
			t.names = append(slices.Clip(t.names), name)
		}
		delete(t.has, name)
		t.due = true
	}
}

// sendChanges sends the ServiceEntries that the client wants and does not have, and the names of
// removed ones, and records both in t. It sends no ServiceEntries before the catalog is ready, and
// nothing if there is no difference and no answer is owed. An owed answer of another type is empty.
func (x *xdsServer) sendChanges(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
	typeURL string, t *deltaType, resources map[string]*resource, version uint64, ready bool,
) error {
	response := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL,
		SystemVersionInfo: strconv.FormatUint(version, 10)}
	if isServiceEntry(typeURL) {
		if !ready || !t.due && t.version == version {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			if r := resources[name]; t.has[name] != r.version && t.wants(name) {
				t.has[name] = r.version
				response.Resources = append(response.Resources,
					&discoveryv3.Resource{Name: name, Version: r.version, Resource: r.body})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t.has)) {
			if resources[name] == nil {
				delete(t.has, name)
				response.RemovedResources = append(response.RemovedResources, name)
			}
		}
	}
	t.version = version
	if !t.due && len(response.Resources)+len(response.RemovedResources) == 0 {
		return nil
	}
	t.sent++
	t.due, response.Nonce = false, strconv.Itoa(t.sent)
	x.catalog.requests.Inc()
	return s.Send(response)
}

// logReject counts a NACK and logs it with type and reason.
func (x *xdsServer) logReject(typeURL, reason string) {
	x.catalog.rejects.Inc()
	x.log.Warn("a control plane rejected a response", "type", typeURL, "reason", reason)
}
