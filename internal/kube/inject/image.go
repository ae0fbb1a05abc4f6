package inject

import (
	"cmp"
	"fmt"
	"strings"

	"istio.io/api/annotation"
)

// proxyImage and initImage give the images by the values, for pods that do not name one themselves.
func (v Values) proxyImage(variant string, annotations map[string]string) string {
	return v.image(v.known.Global.Proxy.Image, variant, annotations)
}

func (v Values) initImage(annotations map[string]string) string {
	return v.image(v.known.Global.ProxyInit.Image, "", annotations)
}

// image is hub/name:tag, with the variant (debug, distroless, or default for none) as the tag's suffix.
func (v Values) image(name, variant string, annotations map[string]string) string {
	g := v.known.Global
	variant = cmp.Or(variant, g.Variant)
	if own, ok := annotations[annotation.SidecarProxyImageType.Name]; ok {
		variant = own
	}
	tag := ""
	if g.Tag != nil {
		tag = fmt.Sprint(g.Tag)
	}
	return g.Hub + "/" + cmp.Or(name, "proxyv2") + ":" + withVariant(tag, variant)
}

func withVariant(tag, variant string) string {
	if variant == "" {
		return tag
	}
	for _, known := range []string{"-distroless", "-debug"} {
		if plain, found := strings.CutSuffix(tag, known); found {
			tag = plain
			break
		}
	}
	if variant == "default" {
		return tag
	}
	return tag + "-" + variant
}
