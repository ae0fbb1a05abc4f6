package inject

import "fmt"

// ParseConfigMap reads the keys of the ConfigMap istio-sidecar-injector. env is what the template function of that name looks up;
// nil: nothing is set.
func ParseConfigMap(data map[string]string, env func(string) string) (*Config, Values, error) {
	for _, key := range []string{ConfigKey, ValuesKey} {
		if _, ok := data[key]; !ok {
			return nil, Values{}, fmt.Errorf("there is no key %q", key)
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
