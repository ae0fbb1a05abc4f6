package route

import (
	"regexp"
	"slices"
	"strings"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// routeFilter is the HTTP filter that runs the filter that a route configures. Settings of
// ext_authz for a route cannot express its allowed headers, so the route configures the whole
// filter.
const routeFilter = "envoy.filters.http.composite"

// runFilter returns the configuration of routeFilter for a route that runs one filter.
func runFilter(name string, filter proto.Message) *matchingv3.ExtensionWithMatcherPerRoute {
	action := &compositev3.ExecuteFilterAction{
		TypedConfig: &corev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(filter)},
	}
	return &matchingv3.ExtensionWithMatcherPerRoute{XdsMatcher: &xdsmatcherv3.Matcher{
		OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
			Action: &xdscorev3.TypedExtensionConfig{Name: "run", TypedConfig: resource.Pack(action)},
		}},
	}}
}

// authorizerDestination returns the service and port that an authorizer is called at.
func authorizerDestination(a *config.Authorizer) *networking.Destination {
	return &networking.Destination{Host: a.Host, Port: &networking.PortSelector{Number: a.Port}}
}

// authorizerCluster returns the name of the cluster of an authorizer.
func (t *translation) authorizerCluster(a *config.Authorizer) string {
	return t.cluster(authorizerDestination(a)).String()
}

// authorizerTimeout is the timeout of a check. A request whose check has no answer is refused.
const authorizerTimeout = 10 * time.Second

// authorizerConfig returns the ext_authz filter that has requests checked by cluster, over gRPC or
// HTTP, within authorizerTimeout. The authorizer receives the headers a.RequestHeaders, or Envoy's
// choice if there are none, and up to a.MaxBody bytes of the body, or none for 0. If a has no
// ResponseHeaders, an HTTP authorizer may add all headers to the request except notAdded.
func authorizerConfig(a *config.Authorizer, cluster string) *authzv3.ExtAuthz {
	out := &authzv3.ExtAuthz{TransportApiVersion: corev3.ApiVersion_V3, AllowedHeaders: headerNames(a.RequestHeaders)}
	if a.MaxBody > 0 {
		out.WithRequestBody = &authzv3.BufferSettings{MaxRequestBytes: a.MaxBody}
	}
	timeout := durationpb.New(authorizerTimeout)
	if a.GRPC {
		out.Services = &authzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			Timeout: timeout,
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: cluster, Authority: a.Host,
			}},
		}}
		return out
	}
	added := headerNames(a.ResponseHeaders)
	if added == nil {
		added = new(matcherv3.ListStringMatcher)
		for _, e := range otherThan(notAdded()...) {
			added.Patterns = append(added.Patterns, &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: e}},
			})
		}
	}
	out.Services = &authzv3.ExtAuthz_HttpService{HttpService: &authzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + a.Host, Timeout: timeout, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
		},
		PathPrefix:            a.PathPrefix,
		AuthorizationResponse: &authzv3.AuthorizationResponse{AllowedUpstreamHeaders: added},
	}}
	return out
}

// headerNames returns a matcher of exact header names, converted to lower case, or nil if there are
// none.
func headerNames(list []string) *matcherv3.ListStringMatcher {
	if len(list) == 0 {
		return nil
	}
	out := new(matcherv3.ListStringMatcher)
	for _, n := range list {
		out.Patterns = append(out.Patterns, &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: strings.ToLower(n)},
		})
	}
	return out
}

// notAdded returns the names, in lower case, of headers of an answer that are never added to the
// request: they describe the connection to the authorizer or the body of its answer. Pseudo-headers
// such as :status are not among them.
func notAdded() []string {
	return []string{
		"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive",
		"upgrade", "te", "trailer", "date", "server",
	}
}

// maxLetters bounds an expression of otherThan: Envoy refuses a regular expression whose program
// has more than 100 instructions.
const maxLetters = 7

// otherThan returns regular expressions that together match all header names except pseudo-headers
// and the words, which are in lower case. RE2 has no negation.
func otherThan(words ...string) []string { return appendOtherThan(nil, "", words) }

// appendOtherThan appends to list expressions for the texts that begin with prefix and whose rest
// is not one of words. If prefix is "", texts that begin with ":" are not matched either.
func appendOtherThan(list []string, prefix string, words []string) []string {
	if prefix != "" && len(strings.Join(words, "")) <= maxLetters {
		return append(list, regexp.QuoteMeta(prefix)+otherSuffix(words))
	}
	next, letters, ends := branches(words)
	if prefix == "" {
		list = append(list, "[^:"+class(letters)+"].*")
	} else {
		list = append(list, regexp.QuoteMeta(prefix)+"[^"+class(letters)+"].*")
		if !ends {
			list = append(list, regexp.QuoteMeta(prefix))
		}
	}
	for _, c := range letters {
		list = appendOtherThan(list, prefix+string(c), next[c])
	}
	return list
}

// otherSuffix returns an expression for all texts that are not one of words. The empty text is
// included unless one of words is empty. There must be at least one word.
func otherSuffix(words []string) string {
	next, letters, ends := branches(words)
	if len(letters) == 0 {
		return ".+"
	}
	options := []string{"[^" + class(letters) + "].*"}
	for _, c := range letters {
		options = append(options, regexp.QuoteMeta(string(c))+otherSuffix(next[c]))
	}
	if !ends {
		options = append(options, "")
	}
	return "(" + strings.Join(options, "|") + ")"
}

// branches returns what follows the first letter of words, by this letter; the letters, sorted; and
// whether one of words is empty.
func branches(words []string) (next map[byte][]string, letters []byte, ends bool) {
	next = map[byte][]string{}
	for _, w := range words {
		if w == "" {
			ends = true
			continue
		}
		if next[w[0]] == nil {
			letters = append(letters, w[0])
		}
		next[w[0]] = append(next[w[0]], w[1:])
	}
	slices.Sort(letters)
	return next, letters, ends
}

// class returns letters as they are written inside a character class of a regular expression:
// hyphens are escaped, all others are unchanged.
func class(letters []byte) string {
	var b strings.Builder
	for _, c := range letters {
		if c == '-' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
