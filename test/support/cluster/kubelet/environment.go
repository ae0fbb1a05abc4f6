package kubelet

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// variables are the environment variables of a container.
type variables map[string]string

// buildEnvironment makes a container's variables: of every container, of its image, of envFrom and
// of env, in this order.
func (c *container) buildEnvironment(ctx context.Context, object *corev1.Pod, im *image.Image) (variables, error) {
	env := variables{
		"PATH":     defaultPath,
		"HOME":     "/root",
		"HOSTNAME": c.pod.hostName(),
		"KUBERNETES_SERVICE_HOST": c.pod.k.APIService.Addr().
			String(),
		"KUBERNETES_SERVICE_PORT": fmt.Sprint(c.pod.k.APIService.Port()),
	}
	maps.Copy(env, im.Env)
	for _, from := range c.spec.EnvFrom {
		var data map[string]string
		var err error
		switch {
		case from.ConfigMapRef != nil:
			data, err = c.pod.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			data, err = c.pod.secretData(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		}
		if err != nil {
			return nil, err
		}
		for k, v := range data {
			env[from.Prefix+k] = v
		}
	}
	for i := range c.spec.Env {
		e := &c.spec.Env[i]
		value, set, err := c.variableValue(ctx, object, e, env)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if set {
			env[e.Name] = value
		}
	}
	return env, nil
}

// variableValue returns the value of one variable; set is false if its source is optional and does
// not exist.
func (c *container) variableValue(
	ctx context.Context,
	object *corev1.Pod,
	e *corev1.EnvVar,
	env variables,
) (value string, set bool, err error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return env.expandReferences(e.Value), true, nil
	case from.FieldRef != nil:
		value, err = c.pod.fieldValue(object, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = resourceField(object, c.spec, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := c.pod.configMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return keyOf(data, "configmap "+ref.Name, ref.Key, ref.Optional)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := c.pod.secretData(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return keyOf(data, "secret "+ref.Name, ref.Key, ref.Optional)
	}
	return "", false, fmt.Errorf("its source is of an unknown kind")
}

func keyOf(data map[string]string, object, key string, optional *bool) (value string, set bool, err error) {
	value, set = data[key]
	if !set && !isTrue(optional) {
		return "", false, fmt.Errorf("%s has no key %s", object, key)
	}
	return value, set, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// toList returns them in the form of a process's environment.
func (v variables) toList() []string {
	list := make([]string, 0, len(v))
	for name, value := range v {
		list = append(list, name+"="+value)
	}
	return list
}

func cutVariable(kv string) (name, value string) {
	name, value, _ = strings.Cut(kv, "=")
	return name, value
}

// expandReferences replaces $(NAME) by the variable if there is one, and $$ by $.
func (v variables) expandReferences(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		rest := s[i:]
		end := strings.IndexByte(rest, ')')
		switch {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(") && end > 0 && v.hasVariable(rest[2:end]):
			b.WriteString(v[rest[2:end]])
			i += end
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func (v variables) hasVariable(name string) bool {
	_, ok := v[name]
	return ok
}
