package route

import (
	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// mirrorPolicies translates HTTPRoute.mirror and mirrors. Without a percentage all requests are
// mirrored; with 0, none. Copies keep the host, unless t.shadowHosts is set.
func (t *translation) mirrorPolicies(r *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	add := func(d *networking.Destination, share *typev3.FractionalPercent) {
		if d == nil || share.GetNumerator() == 0 {
			return
		}
		out = append(out, &routev3.RouteAction_RequestMirrorPolicy{
			Cluster:         t.cluster(d).String(),
			RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: share},
			TraceSampled:    wrapperspb.Bool(false),
			// By default the destination alone distinguishes the copy from the original, because a
			// changed host could make the copy unroutable.
			DisableShadowHostSuffixAppend: !t.shadowHosts,
		})
	}
	add(r.GetMirror(), mirrorShare(r))
	for _, m := range r.GetMirrors() {
		share := percentage(m.GetPercentage())
		if share == nil {
			share = fullShare()
		}
		add(m.GetDestination(), share)
	}
	return out
}

// mirrorShare returns the share of requests to HTTPRoute.mirror: by mirrorPercentage, else the
// deprecated mirrorPercent, else all.
func mirrorShare(r *networking.HTTPRoute) *typev3.FractionalPercent {
	if p := r.GetMirrorPercentage(); p != nil {
		return percentage(p)
	}
	if p := r.GetMirrorPercent(); p != nil { //nolint:staticcheck // deprecated, still in use
		return &typev3.FractionalPercent{Numerator: min(p.GetValue(), 100)}
	}
	return fullShare()
}

// fullShare returns 100 percent.
func fullShare() *typev3.FractionalPercent { return &typev3.FractionalPercent{Numerator: 100} }
