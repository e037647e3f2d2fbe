package config

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "../deploy/prometheus/ocr-proxy.rules.yaml"
	dashboardFile = "../deploy/grafana/ocr-proxy.json"
	runbook       = "../docs/runbook.md"
	runbookURL    = "https://github.com/ocr-proxy/ocr-proxy/blob/main/docs/runbook.md#"
)

// rule is a rule of Prometheus: an alert, or a series that is recorded.
type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type ruleGroups struct {
	Groups []ruleGroup `yaml:"groups"`
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file ruleGroups
	require.NoError(t, yaml.Unmarshal([]byte(readPage(t, rulesFile)), &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// dashboard is what is looked at of Grafana's format.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Type    string `json:"type"`
		GridPos struct {
			H, W, X, Y int
		} `json:"gridPos"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(readPage(t, dashboardFile)), &d))
	require.NotEmpty(t, d.Panels)
	return d
}

var (
	seriesForm = regexp.MustCompile(`([a-z_:]*ocrproxy_[a-z_:0-9]+|\b(?:go|process)_[a-z_]+|\bup\b)(?:\{([^}]*)\})?`)
	matchForm  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	byForm     = regexp.MustCompile(`\bby\s*\(([^)]*)\)\s*\(`)
	listForm   = regexp.MustCompile(`\b(?:by|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	wordsForm  = regexp.MustCompile(`^[a-z_.|]+$`)
)

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \n", r) })
}

// promQL looks at expressions: not at their grammar, which promtool knows, but whether they ask for something that there is. A misspelt name
// is a valid question with an empty answer.
type promQL struct {
	known    described           // what the program exports
	recorded map[string][]string // the labels of what rules record
	readme   string
}

func newPromQL(t *testing.T) promQL {
	t.Helper()
	q := promQL{exported(t), map[string][]string{}, readPage(t, readme)}
	for _, row := range cells(t, q.readme, "Metric") { // the kinds of those that only a scrape would tell
		m := q.known[code(row[0])]
		m.kind = row[1]
		q.known[code(row[0])] = m
	}
	q.known.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, r := range readRules(t) {
		if r.Record != "" {
			q.recorded[r.Record] = q.result(t, r.Expr)
		}
	}
	return q
}

// labels are those of a series.
func (q promQL) labels(t *testing.T, name string) []string {
	t.Helper()
	target := []string{"job", "instance"}
	if name == "up" {
		return target
	}
	if labels, is := q.recorded[name]; is {
		return labels
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, is := strings.CutSuffix(name, suffix)
		if is && q.known[base].kind == "histogram" {
			if suffix == "_bucket" {
				target = append(target, "le")
			}
			return append(target, q.known[base].labels...)
		}
	}
	m, is := q.known[name]
	require.True(t, is, "there is no metric %s", name)
	require.NotEqual(t, "histogram", m.kind, "%s is a histogram: nothing is exported under its bare name", name)
	if name == "ocrproxy_build_info" {
		target = append(target, "version", "commit", "go_version")
	}
	return append(target, m.labels...)
}

// check fails when an expression names a metric, a label or a value of the proxy's vocabularies that is not there.
func (q promQL) check(t *testing.T, expr string) {
	t.Helper()
	found := seriesForm.FindAllStringSubmatch(expr, -1)
	require.NotEmpty(t, found, expr)
	for _, series := range found {
		labels := q.labels(t, series[1])
		for _, match := range matchForm.FindAllStringSubmatch(series[2], -1) {
			require.Contains(t, labels, match[1], "%s has no such label, in %s", series[1], expr)
			if match[1] == "job" || !wordsForm.MatchString(match[2]) {
				continue
			}
			for value := range strings.SplitSeq(match[2], "|") {
				require.Contains(t, q.readme, "`"+value+"`", "the README knows no %s %q", match[1], value)
			}
		}
	}
	for _, at := range byForm.FindAllStringSubmatchIndex(expr, -1) {
		for _, series := range seriesForm.FindAllStringSubmatch(enclosed(expr[at[1]:]), -1) {
			require.Subset(t, q.labels(t, series[1]), words(expr[at[2]:at[3]]), "%s in %s", series[1], expr)
		}
	}
	for _, list := range listForm.FindAllStringSubmatch(expr, -1) {
		require.Subset(t, q.every(t, expr), words(list[1]), expr)
	}
}

// enclosed is the text up to the parenthesis that closes the one before it.
func enclosed(text string) string {
	open := 1
	for i, r := range text {
		switch r {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return text[:i]
			}
		}
	}
	return text
}

// every label of any series in an expression.
func (q promQL) every(t *testing.T, expr string) (all []string) {
	t.Helper()
	for _, series := range seriesForm.FindAllStringSubmatch(expr, -1) {
		all = append(all, q.labels(t, series[1])...)
	}
	return all
}

// result are the labels that an expression's answer has: those that it is summed by, else those of its series.
func (q promQL) result(t *testing.T, expr string) (labels []string) {
	t.Helper()
	by := byForm.FindAllStringSubmatch(expr, -1)
	if len(by) == 0 {
		return q.every(t, expr)
	}
	for _, list := range by {
		labels = append(labels, words(list[1])...)
	}
	return labels
}

func TestAlertsAskForWhatIsExported(t *testing.T) {
	q := newPromQL(t)
	for _, r := range readRules(t) {
		t.Run(r.Alert+r.Record, func(t *testing.T) {
			q.check(t, r.Expr)
			labels := q.result(t, r.Expr)
			for _, text := range r.Annotations {
				for _, used := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
					require.Contains(t, labels, used[1], text)
				}
			}
		})
	}
}

func TestEveryAlertSaysWhatToDoAndHasItsSectionInTheRunbook(t *testing.T) {
	sections := map[string]string{}
	for section := range strings.SplitSeq(readPage(t, runbook), "\n### ") {
		name, text, _ := strings.Cut(section, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		if strings.HasPrefix(name, "OcrProxy") {
			sections[name] = text
		}
	}
	var names []string
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		names = append(names, r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Greater(t, len(r.Annotations["description"]), 60, r.Alert)
		require.Equal(t, runbookURL+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		for _, part := range []string{"- **Look:**", "- **Do:**", "- **No worry:**"} {
			require.Contains(t, sections[r.Alert], part, r.Alert)
		}
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(sections)), "alerts, and sections of the runbook")
}

func TestEveryAlertIsSeenToFireAndToBeSilent(t *testing.T) {
	files, err := filepath.Glob("../deploy/prometheus/*_test.yaml")
	require.NoError(t, err)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name     string `yaml:"alertname"`
					Expected []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(readPage(t, path)), &file))
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
				silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
			}
		}
	}
	for _, r := range readRules(t) {
		if r.Alert != "" {
			require.True(t, fires[r.Alert], "%s fires in no test", r.Alert)
			require.True(t, silent[r.Alert], "%s is silent in no test", r.Alert)
		}
	}
}

func TestDashboardAsksForWhatIsExported(t *testing.T) {
	q, d := newPromQL(t), readDashboard(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if query, is := v.Query.(string); is && strings.Contains(query, "ocrproxy_") {
			q.check(t, query)
		}
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			require.Empty(t, p.Targets)
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			q.check(t, target.Expr)
			for _, used := range regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				require.Contains(t, q.result(t, target.Expr), used[1], "legend of %s", p.Title)
			}
			for _, used := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(target.Expr, -1) {
				require.Contains(t, variables, used[1], "variable in %s", p.Title)
			}
			for name := range q.recorded {
				require.NotContains(t, target.Expr, name, "the dashboard works without the rules")
			}
		}
	}
}

func TestDashboardPanelsDoNotLieOnEachOther(t *testing.T) {
	ids := map[int]string{}
	covered := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		require.Empty(t, ids[p.ID], "%s has the id of another panel", p.Title)
		ids[p.ID] = p.Title
		g := p.GridPos
		require.LessOrEqual(t, g.X+g.W, 24, p.Title)
		for x := range g.W {
			for y := range g.H {
				at := [2]int{g.X + x, g.Y + y}
				require.Empty(t, covered[at], "under %s", p.Title)
				covered[at] = p.Title
			}
		}
	}
}

// TestDashboardIsValidPromQL asks promtool, where there is one.
func TestDashboardIsValidPromQL(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	group := ruleGroup{Name: "dashboard"}
	variable := strings.NewReplacer("$__rate_interval", "5m")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			group.Rules = append(group.Rules, rule{Record: "panel", Expr: variable.Replace(target.Expr), Labels: map[string]string{"title": p.Title, "legend": target.LegendFormat}})
		}
	}
	text, err := yaml.Marshal(ruleGroups{Groups: []ruleGroup{group}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, string(out))
}
