package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"istio.io/api/annotation"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
)

// annotationChecks returns, by name, functions that return an error for an invalid value of an
// annotation that affects injection. proxy.istio.io/config is validated where it is parsed.
func annotationChecks() map[string]func(string) error {
	return map[string]func(string) error{
		annotation.SidecarInterceptionMode.Name:                   oneOf("REDIRECT", "TPROXY", "NONE"),
		annotation.SidecarStatusPort.Name:                         checkPort,
		annotation.SidecarStatusReadinessInitialDelaySeconds.Name: checkCount,
		annotation.SidecarStatusReadinessPeriodSeconds.Name:       checkCount,
		annotation.SidecarStatusReadinessFailureThreshold.Name:    checkCount,
		annotation.SidecarTrafficIncludeOutboundIPRanges.Name:     orAll(checkRanges),
		annotation.SidecarTrafficExcludeOutboundIPRanges.Name:     checkRanges,
		annotation.SidecarTrafficIncludeInboundPorts.Name:         orAll(checkPortList),
		annotation.SidecarTrafficExcludeInboundPorts.Name:         checkPortList,
		annotation.SidecarTrafficIncludeOutboundPorts.Name:        checkPortRanges,
		annotation.SidecarTrafficExcludeOutboundPorts.Name:        checkPortList,
		annotation.SidecarTrafficExcludeInterfaces.Name:           checkInterfaces,
		annotation.SidecarTrafficKubevirtInterfaces.Name:          checkInterfaces,
		annotation.IoIstioRerouteVirtualInterfaces.Name:           checkInterfaces,
		annotation.PrometheusMergeMetrics.Name:                    checkBool,
		annotation.SidecarProxyCPU.Name:                           checkQuantity,
		annotation.SidecarProxyCPULimit.Name:                      checkQuantity,
		annotation.SidecarProxyMemory.Name:                        checkQuantity,
		annotation.SidecarProxyMemoryLimit.Name:                   checkQuantity,
		annotation.SidecarProxyImage.Name:                         checkPrintable,
		annotation.SidecarProxyImageType.Name:                     checkPrintable,
		annotation.SidecarLogLevel.Name:                           checkPrintable,
		annotation.SidecarComponentLogLevel.Name:                  checkPrintable,
		annotation.SidecarAgentLogLevel.Name:                      checkPrintable,
		annotation.SidecarBootstrapOverride.Name:                  checkConfigMapName,
		annotation.SidecarUserVolume.Name:                         checkNamedObjects,
		annotation.SidecarUserVolumeMount.Name:                    checkNamedObjects,
	}
}

// checkAnnotations returns the joined errors of all invalid annotations, sorted by name, or nil.
// Unknown annotations are not checked.
func checkAnnotations(annotations map[string]string) error {
	var errs []error
	checks := annotationChecks()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if check := checks[name]; check != nil {
			if err := check(annotations[name]); err != nil {
				errs = append(errs, fmt.Errorf("annotation %s: %q: %w", name, annotations[name], err))
			}
		}
	}
	return errors.Join(errs...)
}

// oneOf returns a check that accepts only these values.
func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

// orAll returns a check that accepts "*" and what check accepts.
func orAll(check func(string) error) func(string) error {
	return func(v string) error {
		if v == "*" {
			return nil
		}
		return check(v)
	}
}

// checkPort returns an error unless v is a number from 0 to 65535. Spaces around it are ignored.
func checkPort(v string) error {
	if _, err := strconv.ParseUint(strings.TrimSpace(v), 10, 16); err != nil {
		return errors.New("want a port, 0 to 65535")
	}
	return nil
}

// checkPortList returns an error unless v is a comma-separated list of ports (checkPort). The empty
// list is valid, an empty item is not.
func checkPortList(v string) error {
	if strings.TrimSpace(v) == "" {
		return nil
	}
	for p := range strings.SplitSeq(v, ",") {
		if checkPort(p) != nil {
			return fmt.Errorf("%q is not a port; want comma-separated ports", p)
		}
	}
	return nil
}

// checkPortRanges returns an error unless v is a comma-separated list of ports and ranges of ports
// (portrange.Parse), which the capture of traffic accepts. Spaces around them are ignored. The
// empty list is valid, an empty item is not.
func checkPortRanges(v string) error {
	if strings.TrimSpace(v) == "" {
		return nil
	}
	for p := range strings.SplitSeq(v, ",") {
		if _, err := portrange.Parse(strings.TrimSpace(p)); err != nil {
			return err
		}
	}
	return nil
}

// checkRanges returns an error unless v is a comma-separated list of address ranges such as
// 10.0.0.0/8, without spaces. The empty list is valid.
func checkRanges(v string) error {
	if v == "" {
		return nil
	}
	for r := range strings.SplitSeq(v, ",") {
		if _, err := netip.ParsePrefix(r); err != nil {
			return fmt.Errorf("%q is not an address range; want comma-separated ranges such as 10.0.0.0/8", r)
		}
	}
	return nil
}

// checkInterfaces returns an error unless v is a comma-separated list of names of network
// interfaces: 1 to 15 printable bytes without spaces, slashes, backslashes and quotes. The empty
// list is valid. Spaces around names are ignored.
func checkInterfaces(v string) error {
	if v == "" {
		return nil
	}
	for name := range strings.SplitSeq(v, ",") {
		name = strings.TrimSpace(name)
		if name == "" || len(name) > 15 || strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(`/\"'`, r)
		}) {
			return fmt.Errorf("%q is not a valid interface name", name)
		}
	}
	return nil
}

// checkCount returns an error unless v is a decimal number from 0 to 2^32-1.
func checkCount(v string) error {
	if _, err := strconv.ParseUint(v, 10, 32); err != nil {
		return errors.New("want a non-negative number")
	}
	return nil
}

// checkBool returns an error unless v is one of the forms of strconv.ParseBool, such as "true",
// "False" or "1".
func checkBool(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return errors.New("want true or false")
	}
	return nil
}

// checkQuantity returns an error unless v is a Kubernetes quantity of printable characters.
func checkQuantity(v string) error {
	if err := checkPrintable(v); err != nil {
		return err
	}
	if _, err := resource.ParseQuantity(v); err != nil {
		return errors.New("want a quantity such as 100m or 128Mi")
	}
	return nil
}

// checkPrintable returns an error if v has spaces, quotes, backticks or characters that are not
// printable. An empty v is valid.
func checkPrintable(v string) error {
	if strings.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(`"'`+"`", r)
	}) {
		return errors.New("has spaces, quotes or control characters")
	}
	return nil
}

// checkConfigMapName returns an error unless v is a DNS subdomain in lower case. The ConfigMap need
// not exist.
func checkConfigMapName(v string) error {
	if len(validation.IsDNS1123Subdomain(v)) > 0 {
		return errors.New("want the name of a ConfigMap")
	}
	return nil
}

// checkNamedObjects returns an error unless v has one of Istio's forms in JSON. These are a list of
// objects with names, and an object with one object per name. Empty lists and objects and null are
// valid; any other value is refused.
func checkNamedObjects(v string) error {
	var byName map[string]map[string]any
	if json.Unmarshal([]byte(v), &byName) == nil {
		return nil
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(v), &list); err != nil {
		return errors.New("want a JSON list of objects with names, or an object with one object per name")
	}
	for i, object := range list {
		if name, ok := object["name"].(string); !ok || name == "" {
			return fmt.Errorf("[%d].name is missing", i)
		}
	}
	return nil
}
