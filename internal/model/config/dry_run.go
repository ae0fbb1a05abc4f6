package config

import (
	"fmt"
	"strconv"

	"istio.io/api/annotation"
)

// DryRun reports whether an AuthorizationPolicy is only tried: its decisions are counted and logged, not enforced. The annotation
// istio.io/dry-run holds a boolean as strconv.ParseBool reads it, so "True" and "1" count as "true". Any other text is an error,
// and the policy is enforced.
func DryRun(c *Config) (bool, error) {
	text, annotated := c.Annotations[annotation.IoIstioDryRun.Name]
	if !annotated {
		return false, nil
	}
	tried, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is not a boolean, so the policy is enforced: write \"true\" or \"false\"", text)
	}
	return tried, nil
}
