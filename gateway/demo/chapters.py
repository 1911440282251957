"""The chapters of the demonstration, in the order in which one would read them.

Called by `actionledger demo`.
"""

from typing import Final

from gateway.demo import (
    adversary,
    approvals,
    catalogue,
    ceilings,
    compensation,
    conflict,
    finding_out,
    policy,
    preview,
    replan,
    review,
    saga,
    story,
    targets,
)
from gateway.demo.chapter import Chapter

CHAPTERS: Final[dict[str, Chapter]] = {
    one.name: one
    for one in (
        story.CHAPTER,
        catalogue.CHAPTER,
        policy.CHAPTER,
        preview.CHAPTER,
        approvals.CHAPTER,
        review.CHAPTER,
        *finding_out.CHAPTERS,
        conflict.CHAPTER,
        ceilings.CHAPTER,
        targets.CHAPTER,
        replan.CHAPTER,
        compensation.CHAPTER,
        saga.CHAPTER,
        adversary.CHAPTER,
    )
}
"""By name; the first is told where none is named."""
