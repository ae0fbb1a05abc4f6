package route

import (
	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// mirrors translates HTTPRoute.mirror and mirrors. Everything is mirrored where no percentage is given, and nothing
// where it is 0.
func (t *translation) mirrors(r *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	add := func(d *networking.Destination, share *typev3.FractionalPercent) {
		if d == nil || share.GetNumerator() == 0 {
			return
		}
		out = append(out, &routev3.RouteAction_RequestMirrorPolicy{
			Cluster:         t.cluster(d).String(),
			RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: share},
			TraceSampled:    wrapperspb.Bool(false),
			// The copy is told from the original by who gets it; a changed host would only keep it from being served.
			DisableShadowHostSuffixAppend: true,
		})
	}
	add(r.GetMirror(), mirrorShare(r))
	for _, m := range r.GetMirrors() {
		share := percentage(m.GetPercentage())
		if share == nil {
			share = wholly()
		}
		add(m.GetDestination(), share)
	}
	return out
}

func mirrorShare(r *networking.HTTPRoute) *typev3.FractionalPercent {
	if p := r.GetMirrorPercentage(); p != nil {
		return percentage(p)
	}
	if p := r.GetMirrorPercent(); p != nil { //nolint:staticcheck // deprecated, still in use
		return &typev3.FractionalPercent{Numerator: min(p.GetValue(), 100)}
	}
	return wholly()
}

func wholly() *typev3.FractionalPercent { return &typev3.FractionalPercent{Numerator: 100} }
