package inject

import (
	"cmp"
	"fmt"
	"strings"

	"istio.io/api/annotation"
)

// proxyImage returns the default image of the proxy for pods that do not name one. The pod's
// annotation may override the variant (imageName).
func (v Values) proxyImage(variant string, annotations map[string]string) string {
	return v.imageName(v.injector.Global.Proxy.Image, variant, annotations)
}

// initImage returns the default image of the init container, for pods that do not name one.
func (v Values) initImage(annotations map[string]string) string {
	return v.imageName(v.injector.Global.ProxyInit.Image, "", annotations)
}

// imageName returns hub/name:tag, with the variant (debug, distroless, or default for none) as
// suffix of the tag. The name is proxyv2 if empty. The pod's annotation, even if it is empty,
// overrides the variant, and a variant that is not empty overrides that of the values.
func (v Values) imageName(name, variant string, annotations map[string]string) string {
	g := v.injector.Global
	variant = cmp.Or(variant, g.Variant)
	if override, ok := annotations[annotation.SidecarProxyImageType.Name]; ok {
		variant = override
	}
	tag := ""
	if g.Tag != nil {
		tag = fmt.Sprint(g.Tag)
	}
	return g.Hub + "/" + cmp.Or(name, "proxyv2") + ":" + tagWithVariant(tag, variant)
}

// tagWithVariant returns the tag with "-" and the variant appended, in place of a suffix
// -distroless or -debug of the tag. For the variant "default" it only removes such a suffix. For an
// empty variant it returns the tag itself. Only one suffix is replaced.
func tagWithVariant(tag, variant string) string {
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
