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
)

// annotationChecks say what is wrong with the values of annotations that shape what is injected. proxy.istio.io/config is
// checked where it is read.
func annotationChecks() map[string]func(string) error {
	return map[string]func(string) error{
		annotation.SidecarInterceptionMode.Name:                   oneOf("REDIRECT", "TPROXY", "NONE"),
		annotation.SidecarStatusPort.Name:                         port,
		annotation.SidecarStatusReadinessInitialDelaySeconds.Name: count,
		annotation.SidecarStatusReadinessPeriodSeconds.Name:       count,
		annotation.SidecarStatusReadinessFailureThreshold.Name:    count,
		annotation.SidecarTrafficIncludeOutboundIPRanges.Name:     orAll(ranges),
		annotation.SidecarTrafficExcludeOutboundIPRanges.Name:     ranges,
		annotation.SidecarTrafficIncludeInboundPorts.Name:         orAll(portList),
		annotation.SidecarTrafficExcludeInboundPorts.Name:         portList,
		annotation.SidecarTrafficIncludeOutboundPorts.Name:        orAll(portList),
		annotation.SidecarTrafficExcludeOutboundPorts.Name:        portList,
		annotation.SidecarTrafficExcludeInterfaces.Name:           interfaces,
		annotation.SidecarTrafficKubevirtInterfaces.Name:          interfaces,
		annotation.IoIstioRerouteVirtualInterfaces.Name:           interfaces,
		annotation.PrometheusMergeMetrics.Name:                    boolean,
		annotation.SidecarProxyCPU.Name:                           quantity,
		annotation.SidecarProxyCPULimit.Name:                      quantity,
		annotation.SidecarProxyMemory.Name:                        quantity,
		annotation.SidecarProxyMemoryLimit.Name:                   quantity,
		annotation.SidecarProxyImage.Name:                         printable,
		annotation.SidecarProxyImageType.Name:                     printable,
		annotation.SidecarLogLevel.Name:                           printable,
		annotation.SidecarComponentLogLevel.Name:                  printable,
		annotation.SidecarAgentLogLevel.Name:                      printable,
		annotation.SidecarBootstrapOverride.Name:                  configMapName,
		annotation.SidecarUserVolume.Name:                         namedObjects,
		annotation.SidecarUserVolumeMount.Name:                    namedObjects,
	}
}

// checkAnnotations gives everything that is wrong with a pod's annotations, each with its name.
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

func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

func orAll(check func(string) error) func(string) error {
	return func(v string) error {
		if v == "*" {
			return nil
		}
		return check(v)
	}
}

func port(v string) error {
	if _, err := strconv.ParseUint(strings.TrimSpace(v), 10, 16); err != nil {
		return errors.New("want a port, 0 to 65535")
	}
	return nil
}

func portList(v string) error {
	if strings.TrimSpace(v) == "" {
		return nil
	}
	for p := range strings.SplitSeq(v, ",") {
		if port(p) != nil {
			return fmt.Errorf("%q is no port; want ports with commas between them", p)
		}
	}
	return nil
}

func ranges(v string) error {
	if v == "" {
		return nil
	}
	for r := range strings.SplitSeq(v, ",") {
		if _, err := netip.ParsePrefix(r); err != nil {
			return fmt.Errorf("%q is no range of addresses; want some like 10.0.0.0/8 with commas between them", r)
		}
	}
	return nil
}

// interfaces checks names of network interfaces, of which the kernel takes 15 bytes.
func interfaces(v string) error {
	if v == "" {
		return nil
	}
	for name := range strings.SplitSeq(v, ",") {
		name = strings.TrimSpace(name)
		if name == "" || len(name) > 15 || strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(`/\"'`, r)
		}) {
			return fmt.Errorf("%q is no name of an interface", name)
		}
	}
	return nil
}

func count(v string) error {
	if _, err := strconv.ParseUint(v, 10, 32); err != nil {
		return errors.New("want a number that is not negative")
	}
	return nil
}

func boolean(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return errors.New("want true or false")
	}
	return nil
}

func quantity(v string) error {
	if err := printable(v); err != nil {
		return err
	}
	if _, err := resource.ParseQuantity(v); err != nil {
		return errors.New("want a quantity like 100m or 128Mi")
	}
	return nil
}

// printable refuses what can be no part of a name or level, and would only serve to mislead.
func printable(v string) error {
	if strings.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(`"'`+"`", r)
	}) {
		return errors.New("has spaces, quotes or control characters")
	}
	return nil
}

func configMapName(v string) error {
	if len(validation.IsDNS1123Subdomain(v)) > 0 {
		return errors.New("want the name of a ConfigMap")
	}
	return nil
}

// namedObjects takes both forms that Istio does: a list of objects that have names, and an object that has one for each name.
func namedObjects(v string) error {
	var byName map[string]map[string]any
	if json.Unmarshal([]byte(v), &byName) == nil {
		return nil
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(v), &list); err != nil {
		return errors.New("want a JSON list of objects with names, or an object that has one for each name")
	}
	for i, object := range list {
		if name, ok := object["name"].(string); !ok || name == "" {
			return fmt.Errorf("[%d].name: is missing", i)
		}
	}
	return nil
}
