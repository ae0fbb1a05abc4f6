package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// rules returns the rules in the order in which they are checked. docs/ADAPTERS.md lists the
// conditions.
func rules() []rule {
	return []rule{
		{"requests for ServiceEntries are answered",
			"the adapter must run, and answer once its platform has reported everything", checkAnswer, true},
		{"every resource is a valid object", "resources are istio.mcp.v1alpha1.Resource with the name namespace/name and a valid ServiceEntry", checkObjects, false},
		{"resources have names, versions and nonces",
			"control planes compare versions after a reconnect and repeat nonces", checkVersions, false},
		{"both variants of xDS serve the same",
			"serve StreamAggregatedResources from the same state as DeltaAggregatedResources", checkVariants, false},
		{"requests for other kinds are answered", "send an empty response for each type: a control plane waits for all of them before it is ready", checkKinds, false},
		{"an acknowledged state is not repeated", "send a resource again only if its version differs", checkSilence,
			false},
		{"after a reconnect, nothing is sent that the client has",
			"compare with initial_resource_versions, and answer even without a difference", checkReconnect, false},
		{"after a reconnect, other versions are replaced", "compare with initial_resource_versions", checkOutdated,
			false},
		{"after a reconnect, deleted resources are removed",
			"list names of initial_resource_versions that do not exist in removed_resources", checkRemoved, false},
		{"a rejected response ends and repeats nothing", "log error_detail, and go on", checkRejection, false},
		{"unknown types and nonces disturb nothing",
			"ignore, or answer without resources, what the adapter does not know", checkGarbage, false},
		{"a slow client delays no other one", "serve each stream by a goroutine or task of its own", checkSlowClient,
			false},
		{"many clients are served", "keep the state once for all streams, and free it when a stream ends",
			checkManyClients, false},
	}
}

// serviceEntries returns the type URL of ServiceEntries.
func serviceEntries() string { return xds.TypeURLs()[api.ServiceEntry] }

// node returns the xDS node that a control plane with the Pod name "pilotctl" would send.
func node() *corev3.Node { return xds.Node{PodName: "pilotctl"}.Description() }

// newStatus returns the error detail of a NACK with a reason, and the code InvalidArgument.
func newStatus(reason string) *status.Status {
	return &status.Status{Code: int32(codes.InvalidArgument), Message: reason}
}

// versions returns the versions of the resources of a response by name.
func versions(list []*discoveryv3.Resource) map[string]string {
	v := map[string]string{}
	for _, x := range list {
		v[x.GetName()] = x.GetVersion()
	}
	return v
}

// readAll returns the first answer for ServiceEntries on a new stream, which it closes. has are the
// versions that the client claims to have, by name; nil for none. It returns an error if the stream
// ends first or Timeout passes.
func (r *run) readAll(ctx context.Context, has map[string]string) (*discoveryv3.DeltaDiscoveryResponse, error) {
	d, err := r.openDelta(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	d.subscribe(serviceEntries(), has)
	return d.await(serviceEntries())
}

// checkAnswer fails if a request for ServiceEntries is not answered within Timeout. It stores the
// resources in r for the rules that follow, and returns their number, endpoints and size as note.
func checkAnswer(ctx context.Context, r *run) (string, error) {
	answer, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	r.resources = map[string]*discoveryv3.Resource{}
	endpoints := 0
	for _, x := range answer.GetResources() {
		r.resources[x.GetName()] = x
		if _, object, _ := xds.ReadResource(api.ServiceEntry, x.GetResource()); object != nil {
			if spec, ok := object.Spec.(*networking.ServiceEntry); ok {
				endpoints += len(spec.GetEndpoints())
			}
		}
	}
	return fmt.Sprintf("%d services, %d endpoints, %d bytes", len(r.resources), endpoints, proto.Size(answer)), nil
}

// checkObjects checks the resources that checkAnswer stored in r. It fails if one is not a readable
// ServiceEntry, or if the object in it has another name than the resource. Only the first such
// resource, by name, is reported. It returns a skipError if there are no services. The note is
// always "".
func checkObjects(_ context.Context, r *run) (string, error) {
	if len(r.resources) == 0 {
		return "", skipError{"there are no services"}
	}
	for _, key := range slices.Sorted(maps.Keys(r.resources)) {
		name, object, problems := xds.ReadResource(api.ServiceEntry, r.resources[key].GetResource())
		if object == nil {
			return "", fmt.Errorf("%s: %s", key, firstError(problems))
		}
		if name != key {
			return "", fmt.Errorf("the resource %s has the object %s", key, name)
		}
	}
	return "", nil
}

// firstError returns "FIELD: REASON" of the first Problem with the severity Error, or only the
// reason if the field is empty. It returns "cannot be used" if there is none.
func firstError(list []config.Problem) string {
	for _, p := range list {
		if p.Severity == config.Error {
			return strings.TrimPrefix(p.Field+": "+p.Reason, ": ")
		}
	}
	return "cannot be used"
}

// checkVersions fails if a wildcard request is not answered within Timeout, or its response has no
// nonce. It also fails if a resource in the response has no name, no version, or the name of
// another one. The note is always "".
func checkVersions(ctx context.Context, r *run) (string, error) {
	answer, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	if answer.GetNonce() == "" {
		return "", errors.New("a response has no nonce")
	}
	for _, x := range answer.GetResources() {
		if x.GetName() == "" || x.GetVersion() == "" {
			return "", fmt.Errorf("the resource %q has the version %q", x.GetName(), x.GetVersion())
		}
	}
	if n := len(versions(answer.GetResources())); n != len(answer.GetResources()) {
		return "", fmt.Errorf("%d resources have %d names", len(answer.GetResources()), n)
	}
	return "", nil
}

// checkVariants fails if the two variants of xDS serve resources with different names; their
// content is not compared. It also fails if a variant does not answer within Timeout. It returns a
// skipError if names were added or removed between two readings of the incremental variant. The
// note is always "".
func checkVariants(ctx context.Context, r *run) (string, error) {
	before, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	names, err := r.readFull(ctx)
	if err != nil {
		return "", err
	}
	after, err := r.readAll(ctx, nil)
	if err != nil {
		return "", err
	}
	want := slices.Sorted(maps.Keys(versions(before.GetResources())))
	switch {
	case !slices.Equal(want, slices.Sorted(maps.Keys(versions(after.GetResources())))):
		return "", skipError{"services were added or removed meanwhile"}
	case !slices.Equal(want, names):
		return "", fmt.Errorf("the state of the world has %d resources, the incremental variant %d", len(names),
			len(want))
	}
	return "", nil
}

// readFull returns the names of the objects in the first response of the state-of-the-world
// variant, sorted. It fails if none arrives within r.Timeout. Resources that cannot be read have
// the name that could be read, or "".
func (r *run) readFull(ctx context.Context) ([]string, error) {
	conn, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&discoveryv3.DiscoveryRequest{Node: node(), TypeUrl: serviceEntries()}) // Recv returns its error
	answer, err := stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("the state-of-the-world variant: %w", err)
	}
	var names []string
	for _, x := range answer.GetResources() {
		name, _, _ := xds.ReadResource(api.ServiceEntry, x)
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// checkKinds requests each type that a control plane reads, one after the other on one stream, and
// acknowledges the answers. It fails at the first type that is not answered within Timeout. The
// note has the number of types.
func checkKinds(ctx context.Context, r *run) (string, error) {
	d, err := r.openDelta(ctx)
	if err != nil {
		return "", err
	}
	defer d.close()
	urls := slices.Sorted(maps.Values(xds.TypeURLs()))
	for _, url := range urls {
		d.subscribe(url, nil)
		answer, err := d.await(url)
		if err != nil {
			return "", err
		}
		d.acknowledge(answer, "")
	}
	return fmt.Sprintf("%d kinds", len(urls)), nil
}
