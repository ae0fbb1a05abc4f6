package inject

import "fmt"

// ParseConfigMap returns the configuration and values in the data of the ConfigMap
// istio-sidecar-injector. env is the lookup of the template function env; if nil, no variable is
// set. It returns an error if a key is missing, its YAML is invalid, or a value that the injector
// reads has a wrong type. Invalid templates, selectors and policies are not errors but Faults of
// the Config.
func ParseConfigMap(data map[string]string, env func(string) string) (*Config, Values, error) {
	for _, key := range []string{ConfigKey, ValuesKey} {
		if _, ok := data[key]; !ok {
			return nil, Values{}, fmt.Errorf("missing key %q", key)
		}
	}
	config, err := ParseConfig([]byte(data[ConfigKey]), env)
	if err != nil {
		return nil, Values{}, err
	}
	values, err := ParseValues([]byte(data[ValuesKey]))
	if err != nil {
		return nil, Values{}, err
	}
	return config, values, nil
}
