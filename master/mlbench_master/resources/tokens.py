"""``/api/tokens``: named tokens of users, and joining tokens of programs that record jobs."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.contract.records import JoinToken
from mlbench_master.http.access import Access
from mlbench_master.http.bodies import read_body
from mlbench_master.openapi.operation import operation
from mlbench_master.runs import join_tokens


@dataclass(frozen=True)
class TokensResource:
    """The named tokens of this master."""

    user_token: str
    access: Access = "admin"

    @operation("list_tokens", "The tokens that have not expired.", list[JoinToken])
    def on_get(self, req: Request, resp: Response) -> None:
        """List the named tokens, the oldest first, without their texts."""
        resp.media = join_tokens.list_all()

    @operation(
        "create_token",
        "The token with its text, which is shown only once.",
        JoinToken,
        status=201,
        body=join_tokens.TokenRequest,
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Create a named token, for a user or to record jobs."""
        request = read_body(req, join_tokens.TokenRequest)
        resp.media = join_tokens.create(request, self.user_token)

    @operation("revoke_token", "The revoked token.", JoinToken)
    def on_delete_one(self, req: Request, resp: Response, token_id: str) -> None:
        """Revoke a named token, with the sessions that it began.

        Ranks that have already joined keep their own tokens until their run ends.
        """
        resp.media = join_tokens.revoke(token_id)
