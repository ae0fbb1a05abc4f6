package route

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// sessionFilter is the HTTP filter of persistent sessions, inactive unless a route configures it.
const sessionFilter = "envoy.filters.http.stateful_session"

// sessionOf returns the persistent session of a service, or the zero Session if svc is nil, it has
// none, or the feature is disabled (Features.PersistentSessions).
func sessionOf(v *view.View, svc *mesh.Service) mesh.Session {
	if svc == nil || !v.Settings.Features.PersistentSessions {
		return mesh.Session{}
	}
	return svc.Session
}

// sessionConfig returns the route's configuration of the session filter for the session of a
// service. A cookie has no TTL, so browsers delete it when they are closed.
func sessionConfig(s mesh.Session) *sessionv3.StatefulSessionPerRoute {
	return extendedSession(&config.SessionPersistence{Cookie: s.Cookie, Path: s.Path, Header: s.Header})
}

// extendedSession returns the route's configuration of the session filter for the session of a rule
// of the Gateway API: by cookie if one is named, else by header. A lifetime becomes the TTL of the
// cookie.
func extendedSession(s *config.SessionPersistence) *sessionv3.StatefulSessionPerRoute {
	name, state := "envoy.http.stateful_session.header", proto.Message(&headerv3.HeaderBasedSessionState{
		Name: s.Header,
	})
	if s.Cookie != "" {
		cookie := &httpv3.Cookie{Name: s.Cookie, Path: s.Path}
		if s.Lifetime > 0 {
			cookie.Ttl = durationpb.New(time.Duration(s.Lifetime) * time.Second)
		}
		name, state = "envoy.http.stateful_session.cookie", &cookiev3.CookieBasedSessionState{Cookie: cookie}
	}
	return &sessionv3.StatefulSessionPerRoute{Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{
		StatefulSession: &sessionv3.StatefulSession{
			SessionState: &corev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(state)},
		},
	}}
}
