package gatewayapi

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// validToken matches the names of cookies and headers.
var validToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// newSession returns the session persistence of a rule with these destinations. It returns nil if
// the rule has none, and nil with a failed verdict if a value or a combination is not supported.
// The type is Cookie by default, and names default to a hash of the route and rule. An invalid or
// too short timeout fails the verdict, but the result is not nil.
func (r *routeReader) newSession(
	x *httpRule,
	to []*networking.HTTPRouteDestination,
) (*config.SessionPersistence, verdict) {
	in := x.session
	if in == nil {
		return nil, verdict{}
	}
	field := x.field + ".sessionPersistence"
	name := "session-" + shortHash(r.object.Key.String(), x.name)
	if in.SessionName != nil && *in.SessionName != "" {
		name = *in.SessionName
	}
	kind := gatewayv1.CookieBasedSessionPersistence
	if in.Type != nil {
		kind = *in.Type
	}
	permanent := in.CookieConfig != nil && in.CookieConfig.LifetimeType != nil &&
		*in.CookieConfig.LifetimeType == gatewayv1.PermanentCookieLifetimeType
	switch {
	case r.inMesh && !r.converter.options.MeshSessions:
		return nil, unsupported("%s: sidecars do not have the filter (PILOT_ENABLE_PERSISTENT_SESSION_FILTER)", field)
	case !validToken.MatchString(name):
		return nil, unsupported("%s.sessionName: %q is not the name of a cookie or header", field, name)
	case kind == gatewayv1.HeaderBasedSessionPersistence && in.AbsoluteTimeout != nil:
		return nil, unsupported("%s.absoluteTimeout: is not supported for type Header: the header has no time", field)
	case kind == gatewayv1.HeaderBasedSessionPersistence && len(to) > 1:
		return nil, unsupported("%s.type: Header is not supported for several backends", field)
	case kind == gatewayv1.HeaderBasedSessionPersistence:
		return &config.SessionPersistence{Header: name}, verdict{}
	case len(to) > 1 && usesCookies(x.matches, to):
		return nil, unsupported(
			"%s: is not supported for several backends if matches or filters of backends name cookies",
			field,
		)
	case kind != gatewayv1.CookieBasedSessionPersistence:
		return nil, unsupported("%s.type: %q is not supported", field, kind)
	case !permanent && in.AbsoluteTimeout != nil:
		return nil, unsupported("%s.absoluteTimeout: is supported only for cookies of lifetimeType Permanent", field)
	case permanent && in.AbsoluteTimeout == nil:
		return nil, unsupported("%s.absoluteTimeout: is required for cookies of lifetimeType Permanent", field)
	}
	out := &config.SessionPersistence{Cookie: name, Path: cookiePath(x.matches)}
	var v verdict
	if d := readDuration(in.AbsoluteTimeout, field+".absoluteTimeout", &v); d != nil {
		if out.Lifetime = int64(d.AsDuration() / time.Second); out.Lifetime < 1 {
			v.worse(unsupported("%s.absoluteTimeout: must be at least 1s", field))
		}
	}
	return out, v
}

// usesCookies reports whether a match reads the header Cookie, or a destination adds the response
// header Set-Cookie.
func usesCookies(matches []httpMatch, to []*networking.HTTPRouteDestination) bool {
	return slices.ContainsFunc(matches, func(m httpMatch) bool { return m.match.GetHeaders()["cookie"] != nil }) ||
		slices.ContainsFunc(to, func(d *networking.HTTPRouteDestination) bool {
			_, added := d.GetHeaders().GetResponse().GetAdd()["set-cookie"]
			return added
		})
}

// backendID returns the value of the cookie that names a backend: a hash of its host and port.
func backendID(d *networking.HTTPRouteDestination) string {
	return shortHash(d.Destination.GetHost(), strconv.FormatUint(uint64(d.Destination.GetPort().GetNumber()), 10))
}

// shortHash returns a 32-bit hash of texts as eight hexadecimal digits.
func shortHash(texts ...string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(texts, "\n")))
	return fmt.Sprintf("%08x", h.Sum32())
}

// cookiePath returns the longest path of whole elements that begins the paths of all matches,
// without a slash at its end. It returns "/" if there is none, or if a match is neither a prefix
// nor an exact path.
func cookiePath(matches []httpMatch) string {
	var common []string
	for i, m := range matches {
		path := m.prefix
		switch {
		case m.isPrefix:
		case m.match.GetUri().GetExact() != "":
			path = strings.TrimRight(m.match.GetUri().GetExact(), "/")
		default:
			return "/"
		}
		elements := strings.Split(path, "/")
		if i == 0 {
			common = elements
			continue
		}
		n := 0
		for n < min(len(common), len(elements)) && common[n] == elements[n] {
			n++
		}
		common = common[:n]
	}
	if path := strings.Join(common, "/"); path != "" {
		return path
	}
	return "/"
}

// addSession sets the session of route to in extra. If requests are split over several backends, it
// also adds a cookie that names the backend to the responses. To r.http it then adds, before to,
// routes that match this cookie, also for backends of weight 0. Envoy keeps the endpoint of a
// session only within a cluster.
func (r *routeReader) addSession(to *networking.HTTPRoute, extra *config.HTTPExtension, s *config.SessionPersistence) {
	extra.Session = s
	if s.Cookie == "" || len(to.Route) < 2 {
		return
	}
	order, cookie := extra.Order, s.Cookie+"-backend"
	extra.Order += "~"
	for i, d := range to.Route {
		id := backendID(d)
		sticky, own := proto.CloneOf(to), *extra
		only := proto.CloneOf(d)
		only.Weight = 1
		sticky.Route, own.InvalidWeight, own.InvalidStatus = []*networking.HTTPRouteDestination{only}, 0, 0
		own.Order = fmt.Sprintf("%s%03d", order, i)
		if own.Backends != nil {
			own.Backends = own.Backends[i : i+1]
		}
		if len(sticky.Match) == 0 {
			sticky.Match = []*networking.HTTPMatchRequest{{}}
		}
		m := sticky.Match[0]
		m.Headers = maps.Clone(m.Headers)
		if m.Headers == nil {
			m.Headers = map[string]*networking.StringMatch{}
		}
		m.Headers["cookie"] = expression("(.*;[ ]*)?" + regexp.QuoteMeta(cookie+"="+id) + "(;.*)?")
		r.http, r.extra = append(r.http, sticky), append(r.extra, own)
	}
	to.Route = slices.Clone(to.Route)
	for i, d := range to.Route {
		d = proto.CloneOf(d)
		d.Headers = withHeaders(d.Headers)
		if d.Headers.Response == nil {
			d.Headers.Response = new(networking.Headers_HeaderOperations)
		}
		if d.Headers.Response.Add == nil {
			d.Headers.Response.Add = map[string]string{}
		}
		value := fmt.Sprintf("%s=%s; Path=%s; HttpOnly", cookie, backendID(d), literal(s.Path))
		if s.Lifetime > 0 {
			value += fmt.Sprintf("; Max-Age=%d", s.Lifetime)
		}
		d.Headers.Response.Add["set-cookie"] = value
		to.Route[i] = d
	}
}
