/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error answers. Every one says no-store and carries a code of its own. 404 is
 * not among them: a 404 always comes from an agent or an application, so a
 * client may take it for "there is no such thing there". The 401 is the same
 * bytes whatever was wrong, without even a request id in it; the Podflare API
 * has other ones, as constant.
 */
#include "config.h"

#include "gateway/errpage.h"

#include <string.h>

#include "net/http1.h"
#include "net/httpd.h"

static const struct error {
	unsigned status;
	unsigned retry;
	const char *code;
	const char *title; /* for people */
	const char *text;
} errors[GE_COUNT] = {
    [GE_NONE] = {500, 0, "internal", "Something broke here",
		 "the gateway failed"},
    [GE_BAD_REQUEST] = {400, 0, "bad_request", "That address cannot work",
			"the request names something that cannot exist"},
    [GE_NO_ROUTE] = {400, 0, "no_route", "Nothing to see at this address",
		     "no route has that path"},
    [GE_UNAUTHORIZED] = {401, 0, "unauthorized", "A valid token is needed",
			 "missing or wrong credential"},
    [GE_FORBIDDEN] = {403, 0, "forbidden", "Not with this token",
		      "this credential does not open that"},
    [GE_NO_SUCH_SANDBOX] = {410, 0, "no_such_sandbox", "No such sandbox",
			    "there is no sandbox of that name"},
    [GE_SANDBOX_STOPPED] = {410, 0, "sandbox_stopped",
			    "This sandbox was stopped",
			    "the sandbox does not exist any more"},
    [GE_PORT_NOT_LISTENING] = {503, 2, "port_not_listening",
			       "Waiting for the application",
			       "nothing listens on that port yet"},
    [GE_CONNECT_TIMEOUT] = {504, 2, "connect_timeout",
			    "The application does not pick up",
			    "connecting to the application took too long"},
    [GE_RESPONSE_TIMEOUT] = {504, 0, "response_timeout",
			     "The application does not answer",
			     "the application sent no response in time"},
    [GE_APP_CLOSED_EARLY] = {502, 2, "app_closed_early",
			     "The application hung up",
			     "the application closed the connection before "
			     "it answered"},
    [GE_BAD_GATEWAY] = {502, 0, "bad_gateway",
			"The application's answer made no sense",
			"the application's response was malformed"},
    [GE_CONNECT_DENIED] = {502, 0, "socket_refused",
			   "That socket is not to be trusted",
			   "the socket for that port is not the sandbox's "
			   "own"},
    [GE_LIMIT] = {429, 1, "limit", "Too much at once",
		  "too much is open at once"},
    [GE_TOO_LARGE] = {413, 0, "too_large", "That is too large",
		      "the request is larger than allowed"},
    [GE_UNREACHABLE] = {503, 2, "unreachable", "The sandbox cannot be reached",
			"the sandbox cannot be reached now"},
    [GE_TUNNEL_DOWN] = {503, 2, "tunnel_down",
			"The machine of this sandbox cannot be reached",
			"the tunnel to the sandbox's machine is down"},
    [GE_AUTH_UNAVAILABLE] = {503, 5, "auth_unavailable",
			     "Tokens cannot be checked right now",
			     "the credential could not be verified now"},
    [GE_STARTING] = {503, 1, "sandbox_starting", "Starting",
		     "the sandbox is not ready yet"},
};

unsigned
errpage_status(enum gw_error e)
{
	return errors[e].status;
}

const char *
errpage_code(enum gw_error e)
{
	return errors[e].code;
}

bool
errpage_wants_html(const struct http_head *h)
{
	static const char *const shown[] = {"document", "iframe", "frame",
					    "embed", "object"};
	struct strv dest = http1_get(h, H_SEC_FETCH_DEST);
	int at = -1;
	size_t i;

	if (h->wants_upgrade)
		return false;
	for (i = 0; dest.p != NULL && i < ARRAY_LEN(shown); i++) {
		if (strv_eq(dest, strv_of(shown[i])))
			return true;
	}
	while (dest.p == NULL && (at = http1_next(h, H_ACCEPT, at)) >= 0) {
		struct strv v = http1_value(h, (size_t)at);

		if (memmem(v.p, v.len, "text/html", 9) != NULL)
			return true;
	}
	return false;
}

const char *
errpage_type(const struct errpage *p)
{
	return p->html ? "text/html; charset=utf-8" : "application/json";
}

static bool
shows_id(const struct errpage *p)
{
	return p->e != GE_UNAUTHORIZED && p->request_id.len > 0;
}

/* "80, 8000", with that between them. */
static void
add_ports(const struct errpage *p, struct strbuf *out, const char *sep)
{
	for (size_t i = 0; i < p->nlistening; i++)
		strbuf_addf(out, "%s%u", i > 0 ? sep : "", p->listening[i]);
}

static void
body_json(const struct errpage *p, struct strbuf *out)
{
	const struct error *e = &errors[p->e];

	strbuf_adds(out, "{\"error\":");
	if (p->detail != NULL) {
		struct strbuf text = {0};

		strbuf_addf(&text, "%s: %s", e->text, p->detail);
		strbuf_add_json(out, (struct strv){text.s, text.len});
		strbuf_clear(&text);
	} else {
		strbuf_add_json(out, strv_of(e->text));
	}
	strbuf_addf(out, ",\"code\":\"%s\"", e->code);
	if (e->retry > 0)
		strbuf_addf(out, ",\"retry_after\":%u", e->retry);
	if (p->e == GE_PORT_NOT_LISTENING) {
		strbuf_adds(out, ",\"listening\":[");
		add_ports(p, out, ",");
		strbuf_addc(out, ']');
	}
	if (shows_id(p)) {
		strbuf_adds(out, ",\"request_id\":");
		strbuf_add_json(out, p->request_id);
	}
	strbuf_adds(out, "}\n");
}

/* Nothing but the words of the Connect protocol: clients know no others. */
static const char *
rpc_code(unsigned status)
{
	switch (status) {
	case 400:
		return "invalid_argument";
	case 401:
		return "unauthenticated";
	case 403:
		return "permission_denied";
	case 410:
		return "not_found";
	case 413:
	case 429:
		return "resource_exhausted";
	case 504:
		return "deadline_exceeded";
	case 502:
	case 503:
		return "unavailable";
	default:
		return "internal";
	}
}

static void
body_rpc(const struct errpage *p, struct strbuf *out)
{
	const struct error *e = &errors[p->e];
	struct strbuf text = {0};

	strbuf_adds(&text, e->text);
	if (p->detail != NULL)
		strbuf_addf(&text, ": %s", p->detail);
	strbuf_addf(out, "{\"code\":\"%s\",\"message\":", rpc_code(e->status));
	strbuf_add_json(out, (struct strv){text.s, text.len});
	strbuf_adds(out, "}\n");
	strbuf_clear(&text);
}

static const char page_style[] =
    ":root{color-scheme:light dark;--b:#f6f7f9;--c:#fff;--t:#1c2330;"
    "--m:#667085;--l:#e4e7ec;--a:#3b6ef5}"
    "@media(prefers-color-scheme:dark){:root{--b:#0f1218;--c:#171c25;"
    "--t:#e7eaf0;--m:#8b95a7;--l:#262d3a;--a:#7aa2ff}}"
    "*{box-sizing:border-box}html,body{height:100%;margin:0}"
    "body{display:grid;place-items:center;padding:24px;background:var(--b);"
    "color:var(--t);font:16px/1.55 system-ui,-apple-system,'Segoe UI',"
    "Roboto,sans-serif}"
    "main{width:100%;max-width:30rem;padding:32px;background:var(--c);"
    "border:1px solid var(--l);border-radius:16px;"
    "box-shadow:0 12px 32px rgba(16,24,40,.08)}"
    "h1{margin:0 0 8px;font-size:1.3rem;line-height:1.3}"
    "p{margin:0 0 8px;overflow-wrap:anywhere}.m{color:var(--m)}"
    ".d{display:flex;gap:6px;margin:0 0 20px}"
    ".d i{width:9px;height:9px;border-radius:50%;background:var(--a);"
    "animation:p 1.2s infinite ease-in-out}"
    ".d i:nth-child(2){animation-delay:.15s}"
    ".d i:nth-child(3){animation-delay:.3s}"
    "@keyframes p{0%,60%,100%{opacity:.25}30%{opacity:1}}"
    "@media(prefers-reduced-motion:reduce){.d i{animation:none}}"
    "footer{margin-top:24px;padding-top:14px;border-top:1px solid var(--l);"
    "color:var(--m);font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;"
    "overflow-wrap:anywhere}";

static void
body_html(const struct errpage *p, struct strbuf *out)
{
	const struct error *e = &errors[p->e];

	strbuf_adds(out, "<!doctype html><html lang=\"en\"><head>"
			 "<meta charset=\"utf-8\"><meta name=\"viewport\" "
			 "content=\"width=device-width,initial-scale=1\">");
	if (e->retry > 0)
		strbuf_addf(out, "<meta http-equiv=\"refresh\" content=\"%u\">",
			    e->retry);
	strbuf_adds(out, "<title>");
	strbuf_add_html(out, strv_of(e->title));
	strbuf_adds(out, "</title><style>");
	strbuf_adds(out, page_style);
	strbuf_adds(out, "</style></head><body><main role=\"status\">");
	if (e->retry > 0)
		strbuf_adds(out, "<div class=\"d\" aria-hidden=\"true\">"
				 "<i></i><i></i><i></i></div>");
	strbuf_adds(out, "<h1>");
	strbuf_add_html(out, strv_of(e->title));
	strbuf_adds(out, "</h1><p>");
	strbuf_add_html(out, strv_of(e->text));
	strbuf_adds(out, ".</p>");
	if (p->detail != NULL) {
		strbuf_adds(out, "<p class=\"m\">");
		strbuf_add_html(out, strv_of(p->detail));
		strbuf_adds(out, "</p>");
	}
	if (p->nlistening > 0) {
		strbuf_adds(out, "<p class=\"m\">Listening: ");
		add_ports(p, out, ", ");
		strbuf_adds(out, "</p>");
	}
	if (e->retry > 0)
		strbuf_adds(out, "<p class=\"m\">This page tries again by "
				 "itself.</p>");
	strbuf_addf(out, "<footer>%u %s", e->status, e->code);
	if (shows_id(p)) {
		strbuf_adds(out, " &middot; ");
		strbuf_add_html(out, p->request_id);
	}
	strbuf_adds(out, "</footer></main></body></html>\n");
}

void
errpage_body(const struct errpage *p, struct strbuf *out)
{
	if (p->podflare && p->e == GE_UNAUTHORIZED)
		strbuf_adds(out, "{\"error\":\"invalid api key\"}\n");
	else if (p->rpc)
		body_rpc(p, out);
	else if (p->html)
		body_html(p, out);
	else
		body_json(p, out);
}

void
errpage_fields(const struct errpage *p, struct strbuf *out)
{
	unsigned retry = errors[p->e].retry;

	strbuf_adds(out, "Cache-Control: no-store\r\n"
			 "X-Content-Type-Options: nosniff\r\n");
	if (p->html)
		strbuf_adds(out, "Content-Security-Policy: default-src 'none'; "
				 "style-src 'unsafe-inline'\r\n");
	if (retry > 0)
		strbuf_addf(out, "Retry-After: %u\r\n", retry);
	if (p->e == GE_UNAUTHORIZED)
		strbuf_adds(out, "WWW-Authenticate: Bearer "
				 "realm=\"sandbox\"\r\n");
	if (p->request_id.len > 0)
		strbuf_addf(out, "X-Request-Id: %.*s\r\n",
			    STRV_ARG(p->request_id));
}

void
errpage_send(struct httpd_req *rq, const struct errpage *p)
{
	struct strbuf body = {0}, fields = {0};

	errpage_body(p, &body);
	errpage_fields(p, &fields);
	httpd_respond(rq, errors[p->e].status, errpage_type(p),
		      (struct strv){fields.s, fields.len},
		      (struct strv){body.s, body.len});
	strbuf_clear(&body);
	strbuf_clear(&fields);
}

const char *
errpage_refusal_code(unsigned status)
{
	if (status == 413 || status == 414 || status == 431)
		return "too_large";
	return status == 408 ? "request_timeout" : "bad_request";
}

void
errpage_refuse(struct httpd_conn *c, unsigned status, const char *what)
{
	struct strbuf body = {0};

	strbuf_adds(&body, "{\"error\":");
	strbuf_add_json(&body, strv_of(what));
	strbuf_addf(&body, ",\"code\":\"%s\"}\n", errpage_refusal_code(status));
	httpd_conn_respond(c, status, "application/json",
			   STRV("Cache-Control: no-store\r\n"
				"X-Content-Type-Options: nosniff\r\n"),
			   (struct strv){body.s, body.len});
	strbuf_clear(&body);
}
