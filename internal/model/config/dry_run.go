package config

import (
	"fmt"
	"strconv"

	"istio.io/api/annotation"
)

// DryRun reports whether an AuthorizationPolicy is in dry-run mode: proxies count and log its
// decisions but do not enforce them. The annotation istio.io/dry-run contains a boolean in a form
// that strconv.ParseBool accepts, such as "true", "True" or "1"; without it, the result is false.
// Any other text is an error, and the policy is enforced.
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
