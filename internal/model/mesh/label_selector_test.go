package mesh

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"k8s.io/apimachinery/pkg/labels"
)

func TestLabelSelector(t *testing.T) {
	expression := func(key, operator string, values ...string) *meshconfig.LabelSelector {
		return &meshconfig.LabelSelector{MatchExpressions: []*meshconfig.LabelSelectorRequirement{
			{Key: key, Operator: operator, Values: values},
		}}
	}
	both := expression("stage", "NotIn", "dev")
	both.MatchLabels = map[string]string{"team": "a"}
	tests := []struct {
		name     string
		selector *meshconfig.LabelSelector
		matches  []labels.Set
		others   []labels.Set
	}{
		{"nil", nil, nil, []labels.Set{{}, {"team": "a"}}},
		{"empty", &meshconfig.LabelSelector{}, []labels.Set{{}, {"team": "a"}}, nil},
		{"In", expression("team", "In", "a", "b"), []labels.Set{{"team": "b"}}, []labels.Set{{}, {"team": "c"}}},
		{"NotIn", expression("team", "NotIn", "a"), []labels.Set{{}, {"team": "b"}}, []labels.Set{{"team": "a"}}},
		{"Exists", expression("team", "Exists"), []labels.Set{{"team": ""}}, []labels.Set{{}}},
		{"DoesNotExist", expression("team", "DoesNotExist"), []labels.Set{{}}, []labels.Set{{"team": ""}}},
		{
			"labels and expressions", both,
			[]labels.Set{{"team": "a"}, {"team": "a", "stage": "live"}},
			[]labels.Set{{"team": "a", "stage": "dev"}, {"team": "b"}, {}},
		},
	}
	for _, tt := range tests {
		selector, err := LabelSelector(tt.selector)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for _, set := range tt.matches {
			if !selector.Matches(set) {
				t.Errorf("%s does not match %v", tt.name, set)
			}
		}
		for _, set := range tt.others {
			if selector.Matches(set) {
				t.Errorf("%s matches %v", tt.name, set)
			}
		}
	}
	for _, invalid := range []*meshconfig.LabelSelector{expression("team", "Like", "a"), expression("team", "In")} {
		if _, err := LabelSelector(invalid); err == nil {
			t.Errorf("%v is accepted", invalid)
		}
	}
}
